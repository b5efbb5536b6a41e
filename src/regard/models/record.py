"""Attention weights of one sentence as data."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.float32]


@dataclass(frozen=True)
class AttentionRecord:
    """Where each head looked. Every array is [layers, heads, from, to], each row sums to one.

    `decoder` row t and `cross` row t belong to the step that produced target token t.
    """

    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    encoder: Weights
    decoder: Weights
    cross: Weights
