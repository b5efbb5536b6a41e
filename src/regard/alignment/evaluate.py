"""Word alignments of given pairs: found by one model or by two, held against gold ones, and chosen by them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from regard.alignment.aligner import Aligner
from regard.data.word_alignments import GoldAlignment, Links
from regard.errors import UserError
from regard.models.record import AttentionRecord
from regard.pipelines.translator import Translator

_NO_CROSS = "this model has no cross attention, and so no alignment"
THRESHOLDS = (None, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)


@dataclass(frozen=True)
class AlignmentErrors:
    """Found links against gold ones, over all sentences (Och & Ney 2003)."""

    found: int
    sure: int
    in_sure: int
    in_possible: int

    @classmethod
    def of(cls, found: Sequence[Links], gold: Sequence[GoldAlignment]) -> "AlignmentErrors":
        pairs = list(zip(found, gold, strict=True))
        return cls(
            sum(len(links) for links, _ in pairs),
            sum(len(right.sure) for _, right in pairs),
            sum(len(links & right.sure) for links, right in pairs),
            sum(len(links & right.possible) for links, right in pairs),
        )

    @property
    def rate(self) -> float:
        """AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|); 0 is perfect"""
        total = self.found + self.sure
        return 1.0 - (self.in_sure + self.in_possible) / total if total else 0.0

    @property
    def precision(self) -> float:
        """|A ∩ P| / |A|"""
        return self.in_possible / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        """|A ∩ S| / |S|"""
        return self.in_sure / self.sure if self.sure else 1.0

    def to_text(self) -> str:
        return f"AER {self.rate:.4f}  precision {self.precision:.4f}  recall {self.recall:.4f}"

    def to_json(self) -> dict[str, float]:
        return {"aer": self.rate, "precision": self.precision, "recall": self.recall}


def watch_pairs(translator: Translator, sources: Sequence[str], targets: Sequence[str]) -> Iterator[AttentionRecord]:
    """Where the model looks while it is made to say each target"""
    if len(sources) != len(targets):
        raise UserError(
            f"there are {len(sources):,} sources but {len(targets):,} targets; line n must belong to line n"
        )
    return (translator.record(source, target) for source, target in zip(sources, targets, strict=True))


def align_pairs(
    translator: Translator, sources: Sequence[str], targets: Sequence[str], reverse: Translator | None = None
) -> Iterator[Links]:
    """The links of each pair, as the translator's aligner reads them; with a model of the other direction, what both
    find"""
    found = _links(translator, sources, targets)
    if reverse is None:
        return found
    back = _links(reverse, targets, sources)
    return (intersection(links, other) for links, other in zip(found, back, strict=True))


def _links(translator: Translator, sources: Sequence[str], targets: Sequence[str]) -> Iterator[Links]:
    for record in watch_pairs(translator, sources, targets):
        if not record.cross.size:
            raise UserError(_NO_CROSS)
        yield translator.aligner(record)


def intersection(links: Links, reverse: Links) -> Links:
    """What a model of the other direction found too; its links are the other way round"""
    return {(i, j) for i, j in links if (j, i) in reverse}


def choose(records: Sequence[AttentionRecord], gold: Sequence[GoldAlignment]) -> list[tuple[Aligner, AlignmentErrors]]:
    """Every layer and head, each layer's mean and the mean of all, with every threshold; the best first"""
    if not records or not records[0].cross.size:
        raise UserError(_NO_CROSS)
    n_layers, n_heads = records[0].cross.shape[:2]
    places = [(None, None), *product(range(n_layers), (None, *range(n_heads)))]
    aligners = [Aligner(layer=layer, head=head, threshold=t) for (layer, head), t in product(places, THRESHOLDS)]
    merged = [record.merge_words().cross for record in records]  # once for all of them
    found = [(aligner, AlignmentErrors.of([aligner.links(cross) for cross in merged], gold)) for aligner in aligners]
    return sorted(found, key=lambda pair: pair[1].rate)
