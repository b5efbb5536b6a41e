"""Tags of target languages in OPUS-MT's form: `>>fra<<` in front of a source asks for French."""

import re

from regard.text.language_codes import three_letter_code, two_letter_code
from regard.text.vocab import WORD_START

_TAG = re.compile(r">>([^<>\s]+)<<")


def target_tag(language: str) -> str:
    """Return the tag of a language: that of its ISO 639-3 code or, if the code is of another kind, of the code itself.

    >>> target_tag("fr"), target_tag("pt-BR")
    ('>>fra<<', '>>pt-BR<<')
    """
    return f">>{three_letter_code(language)}<<"


def tag_language(tag: str) -> str:
    """Return the language code of a tag, with two letters if there is such a code.

    >>> tag_language(">>fra<<"), tag_language(">>cmn_Hans<<")
    ('fr', 'cmn_Hans')
    """
    return two_letter_code(tag[2:-2])


def is_tag(token: str) -> bool:
    """Return whether a token is a tag, with or without the mark of the start of a word."""
    return token.endswith("<<") and _TAG.fullmatch(token.removeprefix(WORD_START)) is not None


def split_tag(text: str) -> tuple[str, str]:
    """Return the tag at the beginning of a text, if there is one, and the rest.

    >>> split_tag(">>fra<< the cat"), split_tag("the cat")
    (('>>fra<<', 'the cat'), ('', 'the cat'))
    """
    stripped = text.lstrip()
    tag = _TAG.match(stripped)
    return (tag[0], stripped[tag.end() :].lstrip()) if tag else ("", text)
