"""A model whose next-token probabilities are written in a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.text.vocab import EOS, SPECIALS

A, B, C = range(len(SPECIALS), len(SPECIALS) + 3)
VOCAB_SIZE = len(SPECIALS) + 3


@dataclass(frozen=True)
class TableState:
    """The tokens read so far, one row per hypothesis."""

    prefixes: tuple[tuple[int, ...], ...]

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> "TableState":
        return TableState(tuple(self.prefixes[i] for i in rows.tolist()))


class TableModel:
    """Looks up p(next token | tokens so far); the distribution is uniform for tokens that are not in the table."""

    def __init__(self, table: Mapping[tuple[int, ...], Sequence[float]]) -> None:
        self.table = {key: torch.tensor(p, dtype=torch.float64) for key, p in table.items()}
        self.uniform = torch.full((VOCAB_SIZE,), 1 / VOCAB_SIZE, dtype=torch.float64)

    def max_target_len(self, batch: Batch) -> None:
        return None

    def start(self, batch: Batch) -> TableState:
        return TableState(((),) * batch.size)

    def step(self, state: TableState, ids: Tensor) -> tuple[Tensor, TableState]:
        prefixes = tuple((*p, i) for p, i in zip(state.prefixes, ids.tolist(), strict=True))
        rows = [self.table.get(p[1:], self.uniform) for p in prefixes]  # without BOS
        return torch.stack(rows).log(), TableState(prefixes)


def probabilities(a: float, b: float, c: float, end: float) -> list[float]:
    """Probabilities of the tokens A, B, C and EOS as a row of the vocabulary"""
    row = [0.0] * VOCAB_SIZE
    row[A], row[B], row[C], row[EOS] = a, b, c, end
    return row


def lecture_example() -> TableModel:
    """The lecture's four steps: the probabilities after A, C differ from those after A, B."""
    return TableModel(
        {
            (): probabilities(0.5, 0.2, 0.2, 0.1),
            (A,): probabilities(0.1, 0.4, 0.3, 0.2),
            (A, B): probabilities(0.2, 0.2, 0.4, 0.2),
            (A, C): probabilities(0.1, 0.6, 0.2, 0.1),
            (A, B, C): probabilities(0.0, 0.2, 0.2, 0.6),
            (A, C, B): probabilities(0.1, 0.2, 0.1, 0.6),
        }
    )
