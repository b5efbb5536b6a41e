"""Counts of durations by upper bounds, as Prometheus reads them."""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Seconds; the last is the longest time that a job may wait, with the default limits"""


class Histogram:
    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        """Durations up to each bound that are longer than the one before; the last are longer than all bounds"""
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.sum += seconds

    def cumulative(self) -> Iterator[tuple[str, int]]:
        """Yield each bound and how many durations were at most that long; the last bound is +Inf."""
        return zip([*map(str, BOUNDS), "+Inf"], accumulate(self.counts), strict=True)
