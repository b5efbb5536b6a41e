"""Scores of parts of a test set: sentences of similar length, and sentences with the same tag."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from regard.evaluate.buckets import length_buckets
from regard.evaluate.corpus_statistics import CorpusStatistics
from regard.text.units import LengthUnit, length_unit

_LENGTH_LIMITS: dict[LengthUnit, tuple[int, ...]] = {"words": (10, 20, 30, 40), "characters": (20, 40, 60, 80)}


@dataclass(frozen=True)
class GroupScore:
    """BLEU and chrF of some sentences."""

    name: str
    """A tag, or a range of lengths such as 11–20"""
    sentences: int
    bleu: float
    chrf: float

    @classmethod
    def of(cls, name: str, rows: Sequence[int], statistics: Mapping[str, CorpusStatistics]) -> "GroupScore":
        """Score the sentences `rows`."""
        return cls(name, len(rows), statistics["BLEU"].score(rows), statistics["chrF2"].score(rows))


def scores_by_length(
    sources: Sequence[str], statistics: Mapping[str, CorpusStatistics]
) -> tuple[LengthUnit, list[GroupScore]]:
    """Score sources of 1–10, 11–20, … words, or of 1–20, 21–40, … characters in a script without spaces."""
    unit = length_unit(sources)
    groups = []
    for bucket in length_buckets(sources, _LENGTH_LIMITS[unit], unit):
        label = f"over {bucket.low - 1}" if bucket.high is None else bucket.label
        groups.append(GroupScore.of(label, bucket.rows, statistics))
    return unit, groups


def scores_by_tag(tags: Sequence[str], statistics: Mapping[str, CorpusStatistics]) -> list[GroupScore]:
    """Score the sentences of each tag, the most frequent tag first."""
    rows: dict[str, list[int]] = {}
    for row, tag in enumerate(tags):
        rows.setdefault(tag, []).append(row)
    by_count = sorted(rows.items(), key=lambda item: -len(item[1]))
    return [GroupScore.of(tag, rows_of_tag, statistics) for tag, rows_of_tag in by_count]
