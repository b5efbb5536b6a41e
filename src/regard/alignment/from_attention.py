"""Turning cross-attention into word alignments: which source words each target word is linked to."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from regard.config import Config
from regard.data.word_alignments import Links
from regard.errors import UserError
from regard.models.record import AttentionRecord
from regard.text.words import TokenWords


class Aligner(Config):
    """The rule that turns attention into links. `regard align --choose` finds the best one for a model."""

    layer: int | None = Field(None, ge=0)
    """None: the mean of all layers"""
    head: int | None = Field(None, ge=0)
    """None: the mean of all heads"""
    threshold: float | None = Field(None, gt=0.0, le=1.0)
    """Link every source word that gets at least this much of a target word's attention; None: the one with the most"""

    def __call__(self, record: AttentionRecord) -> Links:
        """Return the links between the units of the texts of a record: words or, without spaces, characters."""
        return links_between_units(self.word_links(record), *record_units(record))

    def word_links(self, record: AttentionRecord) -> Links:
        """Return the links between the words of a record, as `AttentionRecord.merge_words` numbers them."""
        if record.cross.size:
            self.check(*record.cross.shape[:2])
        return self.links_from_weights(record.merge_words().cross)

    def shrink(self, record: AttentionRecord) -> AttentionRecord:
        """Return a record with the same links that takes much less memory: only the weights that this rule reads.

        All heads of the new record have them.
        """
        encoder, decoder = (np.zeros((0, 0, *w.shape[2:]), np.float32) for w in (record.encoder, record.decoder))
        cross = record.cross
        if cross.size:
            self.check(*cross.shape[:2])
            cross = np.broadcast_to(self._mean_weights(cross), cross.shape)
        return replace(record, encoder=encoder, decoder=decoder, cross=cross)

    def check(self, n_layers: int, n_heads: int) -> None:
        """Refuse a layer or head that the model does not have."""
        for name, index, n in (("layer", self.layer, n_layers), ("head", self.head, n_heads)):
            if index is not None and index >= n:
                raise UserError(f"there is no {name} {index}; this model has 0 to {n - 1}")

    def links_from_weights(self, cross: NDArray[np.float32]) -> Links:
        """Return the links for word weights [layers, heads, target words, source words].

        Rows may sum to less than 1, because special tokens belong to no word (see `AttentionRecord.merge_words`).
        """
        if not cross.size:
            return set()
        weights = self._mean_weights(cross)
        if self.threshold is None:
            return {(int(i), j) for j, i in enumerate(weights.argmax(1))}
        return {(int(i), int(j)) for j, i in zip(*np.nonzero(weights >= self.threshold), strict=True)}

    def _mean_weights(self, cross: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the weights [target, source] that links are read from."""
        layers = slice(None) if self.layer is None else slice(self.layer, self.layer + 1)
        heads = slice(None) if self.head is None else slice(self.head, self.head + 1)
        weights: NDArray[np.float32] = cross[layers, heads].mean((0, 1))
        return weights


def record_units(record: AttentionRecord) -> tuple[list[int], list[int]]:
    """Return the number of units in each source word and in each target word of a record."""
    return TokenWords.of(record.source_tokens).n_units, TokenWords.of(record.target_tokens).n_units


def links_between_units(links: Links, source: Sequence[int], target: Sequence[int]) -> Links:
    """Turn links between words into links between all of their units; given the number of units in each word."""
    if sum(source) == len(source) and sum(target) == len(target):
        return links
    starts = [np.cumsum([0, *counts]).tolist() for counts in (source, target)]
    return {pair for i, j in links for pair in product(range(*starts[0][i : i + 2]), range(*starts[1][j : j + 2]))}


def format_links(links: Iterable[tuple[int, int]]) -> str:
    """Write links as Moses does: `0-0 1-2` (source-target, counted from 0), sorted by source word."""
    return " ".join(f"{i}-{j}" for i, j in sorted(links))
