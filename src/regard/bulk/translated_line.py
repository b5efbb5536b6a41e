"""A line with its translations and their scores, as a row of JSON."""

import json
from dataclasses import dataclass

from regard.pipelines.translation import Translation
from regard.text.clean import clean


@dataclass(frozen=True)
class ScoredText:
    """A translation and its mean log-probability per token."""

    text: str
    score: float


@dataclass(frozen=True)
class TranslatedLine:
    """A line of a file and its translations, best first; none if there is a problem."""

    source: str
    candidates: tuple[ScoredText, ...]
    problem: str = ""
    """Why the line has no translation"""

    @classmethod
    def of(cls, translation: Translation) -> "TranslatedLine":
        """Return the clean texts of a translation, each once."""
        if translation.problem:
            return cls(translation.source, (), "too long for the model")
        scores: dict[str, float] = {}
        for each in translation.hypotheses:
            scores.setdefault(clean(each.text), round(each.log_prob / max(1, each.n_tokens), 4))
        scored = tuple(ScoredText(text, score) for text, score in scores.items() if text)
        return cls(translation.source, scored, "" if scored else "empty translation")

    def to_json(self) -> str:
        row = [self.source, [[each.text, each.score] for each in self.candidates], self.problem]
        return json.dumps(row, ensure_ascii=False)

    @classmethod
    def from_json(cls, line: bytes) -> "TranslatedLine":
        source, candidates, problem = json.loads(line)
        return cls(source, tuple(ScoredText(text, score) for text, score in candidates), problem)
