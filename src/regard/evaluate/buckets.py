"""Groups of sentences by source length."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.text.units import LengthUnit, count_units


@dataclass(frozen=True)
class LengthBucket:
    """Sentences whose source has `low` to `high` words or characters; `high` is None for the last, open bucket."""

    low: int
    high: int | None
    rows: list[int]
    """Indices of the sentences"""

    @property
    def label(self) -> str:
        """`6–10`, `5` for a single length, or `21+`."""
        if self.high is None:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}–{self.high}"


def length_buckets(sources: Sequence[str], limits: Sequence[int], unit: LengthUnit = "words") -> list[LengthBucket]:
    """Group sources by their number of words, or of characters, and leave out empty buckets.

    `limits` holds the greatest length of each bucket except the last, in increasing order.
    """
    lengths = [count_units(source, unit) for source in sources]
    buckets, low = [], 1
    for high in (*limits, None):
        rows = [i for i, n in enumerate(lengths) if n >= low and (high is None or n <= high)]
        if rows:
            buckets.append(LengthBucket(low, high, rows))
        low = (high or 0) + 1
    return buckets
