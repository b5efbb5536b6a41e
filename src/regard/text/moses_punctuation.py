"""Moses' normalisation of punctuation, which OPUS-MT models expect of their input.

The rules for no-break spaces are left out, because `clean` has made them plain spaces.
"""

import re
from functools import cache

_Rule = tuple[re.Pattern[str], str]

_RULES = (
    (r"\(", " ("), (r"\)", ") "), (r" +", " "), (r"\) ([.!:?;,])", r")\1"), (r"\( ", "("), (r" \)", ")"),
    (r"(\d) %", r"\1%"), (r" :", ":"), (r" ;", ";"),
    (r"`", "'"), (r"''", ' " '),
    (r"[„“”]", '"'), (r"–", "-"), (r"—", " - "), (r" +", " "), (r"[´‘‚’]", "'"), (r"''", '"'), (r"…", "..."),
    (r"[«»]", '"'), (r" +", " "),
)  # fmt: skip
_QUOTES = {
    "en": ((r'"([,.]+)', r'\1"'),),
    **dict.fromkeys(("de", "es", "fr"), ((r',"', '",'), (r'(\.+)"(\s*[^<])', r'"\1\2'))),
}
"""The order of a quotation mark and a comma or full stop, by language"""


def normalise_punctuation(text: str, language: str) -> str:
    """Return a clean text with plain quotation marks, dashes and spacing, as in the training data of OPUS-MT.

    >>> normalise_punctuation("« Oui » – a-t-il dit…", "fr")
    '" Oui " - a-t-il dit...'
    """
    for pattern, replacement in _rules(language):
        text = pattern.sub(replacement, text)
    return text.strip()


@cache
def _rules(language: str) -> tuple[_Rule, ...]:
    rules = (*_RULES, *_QUOTES.get(language, ()))
    return tuple((re.compile(pattern), replacement) for pattern, replacement in rules)
