"""Which of the served languages a text is in, by py3langid."""

import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

from regard.data.language import can_identify, language_probabilities
from regard.serve.errors import ApiError

_CHARS = 1_000
"""Characters that are looked at; more do not change the result"""


class LanguageGuess(NamedTuple):
    language: str
    probability: float
    """Among all languages that py3langid knows, not only those that are served"""


class LanguageDetector:
    """Ranks language codes by the probability that a text is in that language. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    @cached_property
    def _probabilities(self) -> Callable[[str], dict[str, float]]:
        return language_probabilities()

    def rank(self, texts: Sequence[str], languages: Sequence[str]) -> list[LanguageGuess]:
        """Return these languages, the most probable one first, given texts in one language.

        A language that py3langid does not know has probability 0, and so have all for texts without a letter.
        """
        if not can_identify():
            raise ApiError(
                501, "Not implemented", "detecting languages needs a package on the server: pip install 'regard[serve]'"
            )
        text = _beginning(texts)
        if not any(map(str.isalpha, text)):
            return [LanguageGuess(language, 0.0) for language in languages]
        with self._lock:  # the model is loaded once
            probabilities = self._probabilities(text)
        guesses = [LanguageGuess(code, probabilities.get(_iso_639_1(code), 0.0)) for code in languages]
        return sorted(guesses, key=lambda guess: -guess.probability)


def _beginning(texts: Sequence[str]) -> str:
    """Return as much of the texts as is needed."""
    beginning = ""
    for text in texts:
        beginning += text[: _CHARS - len(beginning)] + "\n"
        if len(beginning) >= _CHARS:
            break
    return beginning


def _iso_639_1(code: str) -> str:
    """Return the language of a code such as zh-Hans or pt_BR."""
    return code.replace("_", "-").split("-")[0].lower()
