"""The language of a text, by py3langid."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from regard.errors import UserError

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

_FEWEST_BYTES = 30
"""Of UTF-8: ten Chinese characters say as much about their language as thirty Latin letters"""
_LEAST_CONFIDENCE = 0.9
"""In 324,000 sentences of Multi30k and Tanaka, no other language than the right one is this probable"""

INSTALL = "needs a package: pip install 'regard[data]'"


def can_identify() -> bool:
    """Return whether py3langid is installed."""
    return find_spec("py3langid") is not None


def language_identifier() -> Callable[[str], str]:
    """Return a function that gives the language code of a text; "" if it is too short or not certain."""
    if not can_identify():
        raise UserError(f"the rule language {INSTALL}; or leave it out with --skip language")
    identifier = _load_identifier()

    def identify(text: str) -> str:
        if len(text.encode()) < _FEWEST_BYTES:
            return ""
        language, confidence = identifier.classify(text)
        return str(language) if confidence >= _LEAST_CONFIDENCE else ""

    return identify


def language_probabilities() -> Callable[[str], dict[str, float]]:
    """Return a function that gives the probability of every language that py3langid knows."""
    identifier = _load_identifier()
    return lambda text: dict(identifier.rank(text))


def _load_identifier() -> "LanguageIdentifier":
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
