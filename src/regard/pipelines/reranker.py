"""Reranking: translations from which the source could be recovered are preferred."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from regard.bundle import NO_LANGUAGES
from regard.errors import UserError
from regard.pipelines.translation_config import TranslationConfig
from regard.search.length_penalty import normalise_score
from regard.search.protocols import Hypothesis
from regard.text.direction import Direction, Directions
from regard.text.language_codes import same_language

if TYPE_CHECKING:
    from regard.pipelines.translator import Translator


@dataclass(frozen=True)
class ReverseScores:
    """What a reverse model says about the hypotheses of one source."""

    log_probs: list[float]
    """log p(source | hypothesis) of each"""
    n_tokens: int
    """Tokens of the source, with the end token"""

    def rerank(self, hypotheses: Sequence[Hypothesis], config: TranslationConfig) -> list[Hypothesis]:
        """Return the hypotheses with new scores, best first.

        The score of y is log p(y | x) / lp(y) + w · log p(x | y) / lp(x) + v · |y|, where lp is the length penalty.
        """
        scored = []
        for hypothesis, log_prob in zip(hypotheses, self.log_probs, strict=True):
            reverse = normalise_score(log_prob, self.n_tokens, config.length_penalty)
            bonus = config.rerank_weight * reverse + config.rerank_length * (len(hypothesis.ids) + 1)
            scored.append(replace(hypothesis, score=hypothesis.score + bonus))
        return sorted(scored, key=lambda each: -each.score)


@dataclass(frozen=True)
class Reranker:
    """Computes how likely sources are as translations of their hypotheses."""

    reverse: "Translator"
    """Translates in the other direction"""

    def reverses(self, direction: Direction) -> bool:
        """Return whether the reverse model translates in the other direction, as far as the languages are known."""
        return any(
            NO_LANGUAGES in (direction.languages, other.languages)
            or (same_language(direction.source, other.target) and same_language(direction.target, other.source))
            for other in self.reverse.directions
        )

    def languages(self, directions: Directions, tags: Mapping[int, str]) -> dict[int, str | None]:
        """Return the language of each text, given its tag, for the reverse model; None if that has one target only."""
        of_tag = {tag: self._language(directions, tag) for tag in dict.fromkeys(tags.values())}
        return {i: of_tag[tag] for i, tag in tags.items()}

    def _language(self, directions: Directions, tag: str) -> str | None:
        direction, *others = [each for each in directions if each.tag == tag] or [directions.first]
        if others:
            names = ", ".join(each.source for each in (direction, *others))
            raise UserError(
                f"the texts may be {names}, so a reverse model cannot rank their translations; leave it out"
            )
        if not self.reverses(direction):
            what, wanted = self.reverse.directions.title, f"{direction.target} → {direction.source}"
            raise UserError(f"the reverse model translates {what}, not {wanted}; give one of the other direction")
        return direction.source if len(self.reverse.directions.targets) > 1 else None

    def rank(
        self,
        candidates: Mapping[int, Sequence[Hypothesis]],
        sources: Sequence[str],
        texts: Mapping[int, Sequence[str]],
        languages: Mapping[int, str | None],
        config: TranslationConfig,
    ) -> dict[int, list[Hypothesis]]:
        """Return the n_best of the candidates of each source, with new scores; `texts` are those of the candidates.

        `languages` are those of the sources (see `languages`). Where a text is too long for the reverse model, the
        order stays as it is.
        """
        scores = self.reverse_scores(
            [sources[i] for i in candidates], [texts[i] for i in candidates], [languages[i] for i in candidates]
        )
        ranked = {
            i: list(row) if each is None else each.rerank(row, config)
            for (i, row), each in zip(candidates.items(), scores, strict=True)
        }
        return {i: row[: config.n_best] for i, row in ranked.items()}

    def reverse_scores(
        self, sources: Sequence[str], texts: Sequence[Sequence[str]], languages: Sequence[str | None]
    ) -> list[ReverseScores | None]:
        """Return the scores of the hypotheses `texts` of each source; None if a text is too long for the model."""
        pairs = [
            (self.reverse.with_tag(text, to), source)
            for source, row, to in zip(sources, texts, languages, strict=True)
            for text in row
        ]
        scores = iter(self.reverse.score_pairs([text for text, _ in pairs], [source for _, source in pairs]))
        results = list[ReverseScores | None]()
        for row in texts:
            of_row = [next(scores) for _ in row]
            known = [each for each in of_row if each is not None]
            complete = bool(known) and len(known) == len(of_row)
            results.append(ReverseScores([log_p for log_p, _ in known], known[0][1]) if complete else None)
        return results
