"""The logit lens of an input as data: the best token after each part of the model, at every position."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.models.lens import LensRow
from regard.text.labels import token_labels
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True, repr=False)
class LogitLens:
    """What a model would predict after each part of each layer; the last row is its prediction."""

    read: tuple[str, ...]
    """What the model reads at each position"""
    predicted: tuple[str, ...]
    """The token whose probability is followed at each position"""
    rows: tuple[str, ...]
    """Names of the rows: `decoder.0 self` is after self-attention in the first layer of the decoder"""
    best: tuple[tuple[str, ...], ...]
    """The most likely token [rows, positions]"""
    best_p: NDArray[np.float64]
    """Its probability [rows, positions]"""
    p: NDArray[np.float64]
    """The probability of the predicted token [rows, positions]"""
    rank: NDArray[np.int64]
    """The rank of the predicted token [rows, positions], 1 = the most likely"""

    @classmethod
    def of(
        cls, tokenizer: Tokenizer, rows: Sequence[LensRow], read: Sequence[str], predicted: Sequence[str]
    ) -> "LogitLens":
        return cls(
            tuple(read),
            tuple(predicted),
            tuple(f"{row.block} {row.part}".strip() for row in rows),
            tuple(tuple(tokenizer.tokens(row.top_ids[:, 0].tolist())) for row in rows),
            np.stack([row.top_probs[:, 0].cpu().numpy() for row in rows]),
            np.stack([row.probs.cpu().numpy() for row in rows]),
            np.stack([row.ranks.cpu().numpy() for row in rows]),
        )

    def __repr__(self) -> str:
        return f"LogitLens({len(self.rows)} rows, {len(self.predicted)} positions)"

    def __str__(self) -> str:
        """A table: one line per row, one column per position"""
        lines = [["", *token_labels(self.read)]]
        for name, tokens, probs in zip(self.rows, self.best, self.best_p, strict=True):
            lines.append([name, *(f"{label} {p:.2f}" for label, p in zip(token_labels(tokens), probs, strict=True))])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        padded = (map(str.ljust, line, widths) for line in lines)
        return "\n".join("  ".join(cells).rstrip() for cells in padded)
