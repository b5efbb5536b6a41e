"""Word alignments read from cross-attention: which source words a target word comes from."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from regard.config import Config
from regard.data.word_alignments import Links
from regard.models.record import AttentionRecord


class Aligner(Config):
    """How attention becomes links. `regard align --choose` finds the best for a model."""

    layer: int | None = Field(None, ge=0)
    """None: the mean of all"""
    head: int | None = Field(None, ge=0)
    """None: the mean of all"""
    threshold: float | None = Field(None, gt=0.0, le=1.0)
    """Links are all source words with so much of a target word's attention; None: the one with most of it"""

    def __call__(self, record: AttentionRecord) -> Links:
        record.select(self.layer, self.head, "cross")  # refuses what is not there
        return self.links(record.merge_words().cross)

    def links(self, cross: NDArray[np.float32]) -> Links:
        """cross [layers, heads, target words, source words]: summed over a source word's pieces, mean over a target
        word's. Special tokens belong to no word, so that a row may sum to less than one."""
        if not cross.size:
            return set()
        layers = slice(None) if self.layer is None else slice(self.layer, self.layer + 1)
        heads = slice(None) if self.head is None else slice(self.head, self.head + 1)
        weights = cross[layers, heads].mean((0, 1))
        if self.threshold is None:
            return {(int(i), j) for j, i in enumerate(weights.argmax(1))}
        return {(int(i), int(j)) for j, i in zip(*np.nonzero(weights >= self.threshold), strict=True)}


def moses(links: Iterable[tuple[int, int]]) -> str:
    """`0-0 1-2`: source-target, from 0, in the order of the source"""
    return " ".join(f"{i}-{j}" for i, j in sorted(links))
