"""Sources in groups of similar length, which are decoded together."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from regard.data.batch import padded_length
from regard.search.decode import DecodeConfig

_CPU_HYPOTHESES = 320
_GPU_HYPOTHESES = 1024
_USUAL_LENGTH = 64  # tokens; of longer sources fewer are decoded at once
_MIN_PART = 16  # sentences that are worth a thread of their own


class LengthGroup(NamedTuple):
    rows: list[int]
    """Row numbers, the longest source first"""
    n_slots: int
    """How many to decode at once; more would not be faster"""


def groups_by_length(
    sources: Sequence[Sequence[int]], config: DecodeConfig, device: torch.device
) -> Iterator[LengthGroup]:
    """Yield groups of non-empty sources. A group ends where the length changes, if it has enough sources by then."""
    most = _GPU_HYPOTHESES if device.type == "cuda" else _CPU_HYPOTHESES
    order = sorted((i for i, source in enumerate(sources) if source), key=lambda i: (-len(sources[i]), i))
    width = config.beam if config.sampling is None else config.n_best
    while order:
        longest = len(sources[order[0]]) + 1
        n_slots = max(1, int(most / width * min(1.0, _USUAL_LENGTH / longest)))
        end = n_slots
        while end < len(order) and padded_length(len(sources[order[end]]) + 1) == padded_length(longest):
            end += 1
        yield LengthGroup(order[:end], n_slots)
        order = order[end:]


def split_for_threads(groups: Sequence[LengthGroup], n_threads: int) -> list[LengthGroup]:
    """Divide large groups, so that each of so many threads gets a part of every length."""
    parts = []
    for rows, n_slots in groups:
        n = max(1, min(n_threads, len(rows) // _MIN_PART))
        parts += [LengthGroup(rows[i::n], n_slots) for i in range(n)]
    return parts
