"""The lecture's table of next-token probabilities, as a model that search can decode with."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.text.vocab import BOS, EOS, SPECIALS

A, B, C = range(len(SPECIALS), len(SPECIALS) + 3)
TOKENS = {A: "A", B: "B", C: "C", EOS: "<eos>"}
NEXT_PROBABILITIES = {
    (): (0.5, 0.2, 0.2, 0.1),
    (A,): (0.1, 0.4, 0.3, 0.2),
    (A, B): (0.2, 0.2, 0.4, 0.2),
    (A, C): (0.1, 0.6, 0.2, 0.1),
    (A, B, C): (0.0, 0.2, 0.2, 0.6),
    (A, C, B): (0.1, 0.2, 0.1, 0.6),
}
"""p(A), p(B), p(C), p(<eos>) after each prefix"""


@dataclass(frozen=True)
class PrefixState:
    """The tokens read so far, per hypothesis"""

    prefixes: tuple[tuple[int, ...], ...]

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> "PrefixState":
        return PrefixState(tuple(self.prefixes[i] for i in rows.tolist()))


class LectureTable:
    """A model that looks up its probabilities; after a prefix that the lecture does not give, they are uniform."""

    def max_target_len(self, batch: Batch) -> None:
        return None

    def start(self, batch: Batch) -> PrefixState:
        return PrefixState(((),) * batch.size)

    def step(self, state: PrefixState, ids: Tensor) -> tuple[Tensor, PrefixState]:
        prefixes = tuple((*p, i) if i != BOS else p for p, i in zip(state.prefixes, ids.tolist(), strict=True))
        uniform = (1 / len(TOKENS),) * len(TOKENS)
        probabilities = torch.zeros(len(prefixes), max(TOKENS) + 1, dtype=torch.float64)
        rows = [NEXT_PROBABILITIES.get(prefix, uniform) for prefix in prefixes]
        probabilities[:, list(TOKENS)] = torch.tensor(rows, dtype=torch.float64)
        return probabilities.log(), PrefixState(prefixes)


def join_tokens(ids: Sequence[int]) -> str:
    """`A B <eos>`"""
    return " ".join(TOKENS[i] for i in ids)
