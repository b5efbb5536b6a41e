"""Scores of given translations: log-probabilities of whole targets, and of their single tokens."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from regard.data.batch import collate_sources
from regard.errors import UserError
from regard.pipelines.arguments import check_texts
from regard.pipelines.length_limit import LengthLimit, TooLongError
from regard.pipelines.target_scores import target_log_probs
from regard.pipelines.text_embedder import TextEmbedder
from regard.pipelines.translation import Translation
from regard.search.protocols import Stepper
from regard.search.token_scores import TokenScore, score_targets

_SCORED_ROWS = 64  # hypotheses whose tokens are scored at once


class PairScore(NamedTuple):
    log_prob: float
    """log p(target | source)"""
    n_tokens: int
    """Of the target, with the end token"""


class PairScorer(TextEmbedder):
    """A pipeline that can score pairs of source and target."""

    def score(self, sources: Sequence[str], targets: Sequence[str], to: str | None = None) -> list[float]:
        """Return log p(target | source) of each pair, including the end of the target; `to` is the target language."""
        sources, targets = check_texts(sources, "score"), check_texts(targets, "score")
        if len(sources) != len(targets):
            raise UserError(f"there are {len(sources)} sources but {len(targets)} targets; give one target per source")
        scores = self.score_pairs(sources, targets, to)
        if None in scores:
            raise TooLongError(f"a text of pair {scores.index(None)} is too long for the model, or for max_source")
        return [score.log_prob for score in scores if score is not None]

    def score_pairs(
        self, sources: Sequence[str], targets: Sequence[str], to: str | None = None
    ) -> list[PairScore | None]:
        """Return the score of each pair; None if one of its texts is too long."""
        longest = min((n - 1 for model in self.members if (n := model.max_len) is not None), default=None)
        sides = (
            ([self.with_tag(source, to) for source in sources], self.src_tokenizer, self.length_limit()),
            (targets, self.tgt_tokenizer, LengthLimit(self.decode_config.max_source, longest)),
        )
        (src, long_src), (tgt, long_tgt) = (
            limit.encode([self.clean(text) for text in texts], tokenizer) for texts, tokenizer, limit in sides
        )
        rows = [i for i in range(len(src)) if i not in long_src and i not in long_tgt]
        pairs = [src[i] for i in rows], [tgt[i] for i in rows]
        scores = target_log_probs(self.members, *pairs, self.tgt_tokenizer.size, self.device)
        known = {i: PairScore(score, len(tgt[i]) + 1) for i, score in zip(rows, scores, strict=True)}
        return [known.get(i) for i in range(len(src))]

    def score_tokens(self, translations: Sequence[Translation], n_top: int = 0) -> list[list[list[TokenScore]]]:
        """Return the scores of the tokens of each hypothesis of each translation, EOS included.

        Each token comes with the `n_top` most likely ones in its place. The translations are those of single sentences,
        without prefixes. Texts that were not given to the model have no scores.
        """
        texts = [translation.fitted.tagged_text if translation.fitted else "" for translation in translations]
        rows = [
            (source, candidate.ids)
            for source, translation in zip(self.src_tokenizer.encode(texts), translations, strict=True)
            for candidate in translation.hypotheses
            if translation.fitted
        ]
        model: Stepper[Any] = self.decoding_model(self.decode_config)
        scores = list[list[TokenScore]]()
        for i in range(0, len(rows), _SCORED_ROWS):
            sources, targets = zip(*rows[i : i + _SCORED_ROWS], strict=True)
            scores += score_targets(model, collate_sources(sources).to(self.device), targets, n_top)
        remaining = iter(scores)
        return [
            [next(remaining) if translation.fitted else [] for _ in translation.hypotheses]
            for translation in translations
        ]
