"""The translators of a server by their languages, as LibreTranslate's API chooses among them."""

import asyncio
import re
from collections.abc import Sequence
from typing import NamedTuple

from regard.pipelines.translator import Translator
from regard.serve.errors import ApiError
from regard.serve.language_detector import LanguageDetector, LanguageGuess
from regard.serve.registry import ServedModel
from regard.text.language_names import language_name

AUTO = "auto"
"""The source language of texts whose language is to be detected"""


class ChosenTranslator(NamedTuple):
    served: ServedModel[Translator]
    detected: LanguageGuess | None
    """The source language, if it was detected"""


class LanguagePairs:
    """Finds the translator for two languages: of several, the one that was named first when the server started."""

    def __init__(self, translators: Sequence[ServedModel[Translator]]) -> None:
        self.translators: dict[tuple[str, str], ServedModel[Translator]] = {}
        for served in translators:
            for direction in served.pipeline.directions:
                self.translators.setdefault(direction.languages, served)
        self.detector = LanguageDetector()

    @property
    def languages(self) -> list[str]:
        return list(dict.fromkeys(code for pair in self.translators for code in pair))

    @property
    def sources(self) -> list[str]:
        return list(dict.fromkeys(source for source, _ in self.translators))

    def targets(self, source: str) -> list[str]:
        """Return the languages that texts in this one can be translated to."""
        return sorted(target for other, target in self.translators if other == source)

    def check(self, source: str, target: str) -> None:
        """Refuse languages that no translator has."""
        for code in (source, target):
            if code not in self.languages and (code != AUTO or code == target):
                raise ApiError(400, "Invalid request", f"{_shown(code)} is not supported")

    async def choose(self, source: str, target: str, texts: Sequence[str]) -> ChosenTranslator:
        """Return the translator for texts in the language `source`, which may be AUTO."""
        self.check(source, target)
        if source != AUTO:
            return ChosenTranslator(self._find(source, target), None)
        sources = [source for source, other in self.translators if other == target]
        if not sources:
            raise _unavailable(target)
        [best, *_] = await self.detect(texts, sources)
        return ChosenTranslator(self._find(best.language, target), best)

    async def detect(self, texts: Sequence[str], languages: Sequence[str]) -> list[LanguageGuess]:
        """Rank languages by the probability that all texts together are in that language."""
        return await asyncio.to_thread(self.detector.rank, texts, languages)

    def _find(self, source: str, target: str) -> ServedModel[Translator]:
        if (source, target) not in self.translators:
            raise _unavailable(target, f" from {language_name(source)} ({source})")
        return self.translators[source, target]


def _unavailable(target: str, more: str = "") -> ApiError:
    message = f"{language_name(target)} ({target}) is not available as a target language{more}"
    return ApiError(400, "Invalid request", message)


def _shown(code: str) -> str:
    """Return a code as errors repeat it, which clients expect; anything else that a request has is not repeated."""
    return code if re.fullmatch("[A-Za-z]{1,8}([-_][A-Za-z0-9]{1,8})?", code) else "the language"
