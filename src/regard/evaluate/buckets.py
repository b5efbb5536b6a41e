"""Groups of sentences by source length."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class LengthBucket:
    """Sentences whose source has `low` to `high` words; `high` is None for the last, open-ended bucket."""

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


def length_buckets(sources: Sequence[str], limits: Sequence[int]) -> list[LengthBucket]:
    """Group sources by their number of words and leave out empty buckets.

    `limits` holds the greatest length of each bucket except the last, in increasing order.
    """
    lengths = [len(source.split()) for source in sources]
    buckets, low = [], 1
    for high in (*limits, None):
        rows = [i for i, n in enumerate(lengths) if n >= low and (high is None or n <= high)]
        if rows:
            buckets.append(LengthBucket(low, high, rows))
        low = (high or 0) + 1
    return buckets
