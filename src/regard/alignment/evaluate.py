"""Scoring word alignments against gold alignments, and finding the aligner that scores best."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from regard.alignment.from_attention import Aligner, links_between_units, record_units
from regard.alignment.pair_aligner import NO_CROSS_ATTENTION
from regard.data.word_alignments import GoldAlignment, Links
from regard.errors import UserError
from regard.models.record import AttentionRecord

THRESHOLDS = (None, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)


@dataclass(frozen=True)
class AlignmentScores:
    """Link counts over all sentences, with alignment error rate, precision and recall (Och & Ney 2003).

    A are the predicted links, S the sure gold links and P the possible ones, which include S.
    """

    n_predicted: int
    """|A|"""
    n_sure: int
    """|S|"""
    n_in_sure: int
    """|A ∩ S|"""
    n_in_possible: int
    """|A ∩ P|"""

    @classmethod
    def of(cls, predicted: Sequence[Links], gold: Sequence[GoldAlignment]) -> "AlignmentScores":
        """Count links of each sentence against its gold alignment."""
        pairs = list(zip(predicted, gold, strict=True))
        return cls(
            n_predicted=sum(len(links) for links, _ in pairs),
            n_sure=sum(len(reference.sure) for _, reference in pairs),
            n_in_sure=sum(len(links & reference.sure) for links, reference in pairs),
            n_in_possible=sum(len(links & reference.possible) for links, reference in pairs),
        )

    @property
    def error_rate(self) -> float:
        """AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|); 0 is perfect"""
        total = self.n_predicted + self.n_sure
        return 1.0 - (self.n_in_sure + self.n_in_possible) / total if total else 0.0

    @property
    def precision(self) -> float:
        """|A ∩ P| / |A|"""
        return self.n_in_possible / self.n_predicted if self.n_predicted else 1.0

    @property
    def recall(self) -> float:
        """|A ∩ S| / |S|"""
        return self.n_in_sure / self.n_sure if self.n_sure else 1.0

    def to_text(self) -> str:
        return f"AER {self.error_rate:.4f}  precision {self.precision:.4f}  recall {self.recall:.4f}"

    def to_json(self) -> dict[str, float]:
        return {"aer": self.error_rate, "precision": self.precision, "recall": self.recall}


def rank_aligners(
    records: Sequence[AttentionRecord], gold: Sequence[GoldAlignment]
) -> list[tuple[Aligner, AlignmentScores]]:
    """Score every possible aligner against gold alignments; the one with the lowest error rate comes first.

    Tried are each head, the mean of each layer and the mean of all heads, with every threshold.
    """
    if not records or not records[0].cross.size:
        raise UserError(NO_CROSS_ATTENTION)
    n_layers, n_heads = records[0].cross.shape[:2]
    sites = [(None, None), *product(range(n_layers), (None, *range(n_heads)))]
    aligners = [Aligner(layer=layer, head=head, threshold=t) for (layer, head), t in product(sites, THRESHOLDS)]
    merged = [(record.merge_words().cross, record_units(record)) for record in records]  # once for all aligners

    def score(aligner: Aligner) -> AlignmentScores:
        links = [links_between_units(aligner.links_from_weights(cross), *units) for cross, units in merged]
        return AlignmentScores.of(links, gold)

    scored = [(aligner, score(aligner)) for aligner in aligners]
    return sorted(scored, key=lambda pair: pair[1].error_rate)
