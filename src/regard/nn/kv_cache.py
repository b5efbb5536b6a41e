"""The key-value cache of self-attention: buffers with room for later tokens, and an index of who sees which entry."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.nn.constants import numbers
from regard.nn.masks import as_added
from regard.nn.positions import Rope, Rotation, rotation

MAX_SHARED = 32
"""Most hypotheses of a sentence that keep their entries in one group; with more, the masked entries cost too much"""

_FIRST_ROOM = 32  # tokens


class KeyValue(NamedTuple):
    """Keys [B, H, S, K] and values [B, H, S, V] that queries attend to."""

    k: Tensor
    v: Tensor

    def select(self, rows: Tensor) -> "KeyValue":
        return KeyValue(self.k.index_select(0, rows), self.v.index_select(0, rows))


class HeadShape(NamedTuple):
    """Numbers of heads and their widths"""

    n_heads: int
    n_kv_heads: int
    d_key: int
    d_value: int


class KvCache(NamedTuple):
    """Keys and values of one layer, side by side in [G, T, w, C]. New ones are written in place.

    The w hypotheses of a group, which is one sentence, share a buffer: entry (s, i) belongs to the token at position s
    of the hypothesis that was in slot i then. When beam search reorders hypotheses, no entry moves; `CacheIndex` knows
    which entries each hypothesis sees.
    """

    entries: Tensor

    @property
    def room(self) -> int:
        return self.entries.shape[1]

    def with_room(self, room: int) -> "KvCache":
        """Return a cache with room for that many positions, more or fewer than before."""
        if room <= self.room:
            return KvCache(self.entries[:, :room])
        # Zeros, because a masked entry counts 0 times its value, which must be a number.
        return KvCache(F.pad(self.entries, (0, 0, 0, 0, 0, room - self.room)))

    def select(self, groups: Tensor) -> "KvCache":
        return KvCache(self.entries.index_select(0, groups))

    def write(self, places: "Places", new: Tensor) -> "KvCache":
        """Write the entries of new tokens [R, n, C], in place."""
        cache = self if self.room == places.room else self.with_room(places.room)
        cache.entries.index_put_(places.entries, new.detach().to(cache.entries.dtype))
        return cache


@dataclass(frozen=True)
class Places:
    """Where the entries of new tokens go in every layer's cache, and which entries the tokens attend to."""

    positions: Tensor
    """[R, n]: positions of the new tokens"""
    ancestors: Tensor
    """[G, w, T]: see `CacheIndex`, with the new tokens"""
    length: int
    """Positions that are in use, counting the new tokens"""

    @property
    def room(self) -> int:
        """Positions that a cache must have room for"""
        return self.ancestors.shape[2]

    @cached_property
    def entries(self) -> tuple[Tensor, Tensor, Tensor]:
        """(group, position, slot) of each new entry, each [R, n]"""
        groups, w, _ = self.ancestors.shape
        rows = torch.arange(groups * w, device=self.positions.device)[:, None].expand_as(self.positions)
        return rows // w, self.positions, rows % w

    @cached_property
    def mask(self) -> Tensor:
        """[G, 1, w · n, length · w]: which entries each new token sees"""
        groups, w, _ = self.ancestors.shape
        return _visible(self.ancestors[:, :, : self.length], self.positions.view(groups, w, -1))

    @cached_property
    def added_mask(self) -> Tensor:
        """The mask as what is added to the scores"""
        return as_added(self.mask, torch.float32)

    @cached_property
    def distances(self) -> Tensor:
        """[G, 1, w · n, length · w]: how far each entry is from each new token"""
        groups, w, _ = self.ancestors.shape
        keys = torch.arange(self.length, device=self.positions.device).repeat_interleave(w)
        return (self.positions.view(groups, 1, -1, 1) - keys).abs()

    def rotation(self, width: int, dtype: torch.dtype, rope: Rope) -> Rotation:
        """Return the angles of rotary positions [R, n, 1, K/2], which are the same for every layer."""
        if (key := (width, dtype, rope)) not in self._rotations:
            cos, sin = rotation(self.positions, *key)
            self._rotations[key] = Rotation(cos[:, :, None], sin[:, :, None])
        return self._rotations[key]

    @cached_property
    def _rotations(self) -> dict[tuple[int, torch.dtype, Rope], Rotation]:
        return {}

    def attended(self, cache: KvCache) -> Tensor:
        """Return the entries in use as [G, length · w, C]."""
        return cache.entries[:, : self.length].flatten(1, 2)


@dataclass(frozen=True)
class CacheIndex:
    """Which cache entries each hypothesis sees. All layers have the same."""

    positions: Tensor
    """[R]: tokens that each hypothesis has read, which is the position of its next token"""
    ancestors: Tensor
    """[G, w, T]: the slot in which a hypothesis was at each position; −1 where it has no token"""
    length: int = 0
    """The largest position in use, or T if the shapes are fixed"""
    max_shared: int = 1
    """Most hypotheses per group"""
    limit: int | None = None
    """Most positions that attention can process; None: no limit"""
    prompt: int = 0
    """Positions that had been read, padding included, when the shapes were fixed"""
    fixed: bool = False
    """Whether the shapes stay the same from step to step: all T positions are in use, most of them masked"""

    @classmethod
    def start(cls, rows: int, device: torch.device, max_shared: int = 1, limit: int | None = None) -> "CacheIndex":
        positions = torch.zeros(rows, dtype=torch.int64, device=device)
        return cls(positions, positions.new_empty(rows, 1, 0), max_shared=max_shared, limit=limit)

    @property
    def room(self) -> int:
        return self.ancestors.shape[2]

    def with_room(self, room: int) -> "CacheIndex":
        return replace(self, ancestors=F.pad(self.ancestors, (0, room - self.room), value=-1))

    def with_fixed_room(self, room: int) -> "CacheIndex":
        """Return an index with room for so many tokens after the prompt, whose shapes stay the same."""
        prompt = self.prompt if self.fixed else self.length
        index = self.with_room(min(prompt + room, self.limit or prompt + room))
        return replace(index, length=index.room, prompt=prompt, fixed=True)

    def read(self, n: int, lengths: Tensor | None = None) -> tuple[Places, "CacheIndex"]:
        """Return the places of the next n tokens of every hypothesis, and the index after them.

        With `lengths` [R], only that many of a row's n tokens are real, and the others are never seen.
        """
        index, length = self, self.length
        if not self.fixed:
            length = self.length + n
            if length > self.room:
                index = self.with_room(max(_FIRST_ROOM, 2 * self.room, length))
        groups, w, room = index.ancestors.shape
        device = self.positions.device
        positions = self.positions[:, None] if n == 1 else self.positions[:, None] + numbers(n, device)
        # A row of a sentence that is done may have no room left; what it writes is never read.
        positions = positions.clamp(max=room - 1)
        slots, read = numbers(w, device)[:, None].expand(groups, w, n), n if lengths is None else lengths
        if lengths is not None:
            slots = slots.masked_fill((numbers(n, device) >= lengths[:, None]).view(groups, w, n), -1)
        at = positions.view(groups, w, n)
        # With fixed shapes the table is changed in place, as the caches are.
        ancestors = index.ancestors.scatter_(2, at, slots) if self.fixed else index.ancestors.scatter(2, at, slots)
        after = replace(index, positions=self.positions + read, ancestors=ancestors, length=length)
        return Places(positions, ancestors, length), after

    def keep(self, n_tokens: Tensor) -> "CacheIndex":
        """Forget all but the first n_tokens [R] tokens of each hypothesis; those after them are written over."""
        is_kept = numbers(self.room, n_tokens.device) < n_tokens.view(*self.ancestors.shape[:2], 1)
        return replace(self, positions=n_tokens, ancestors=self.ancestors.masked_fill(~is_kept, -1))

    def select(
        self, rows: Tensor, sentences: Tensor | None, caches: Sequence[KvCache]
    ) -> tuple["CacheIndex", list[KvCache]]:
        """Return index and caches of the hypotheses `rows`; see `search.protocols.State` for the arguments."""
        groups, w, _ = self.ancestors.shape
        n_new = len(rows) if sentences is None else len(sentences)
        w_new = len(rows) // max(1, n_new)
        shared = sentences is not None and w_new <= self.max_shared and w in (1, w_new)
        if not shared:
            n_new, w_new = len(rows), 1
        positions, ancestors = self.positions[rows], self.ancestors.flatten(0, 1)[rows]
        if w > w_new:  # hypotheses get caches of their own
            at, slots = numbers(self.room, rows.device), ancestors.clamp(min=0)
            caches = [KvCache(cache.entries[(rows // w)[:, None], at, slots][:, :, None]) for cache in caches]
            ancestors = ancestors.clamp(max=0)
        elif not shared or n_new != groups:
            chosen = rows.view(n_new, w_new)[:, 0] // w
            caches = [cache.select(chosen) for cache in caches]
        if w < w_new:
            caches = [KvCache(F.pad(cache.entries, (0, 0, 0, w_new - w))) for cache in caches]
        ancestors = ancestors.view(n_new, w_new, self.room)
        return replace(self, positions=positions, ancestors=ancestors), list(caches)


def _visible(ancestors: Tensor, positions: Tensor) -> Tensor:
    """[G, 1, w · n, T · w]: whether token n of hypothesis i sees entry (s, j), given [G, w, T] and [G, w, n]."""
    groups, w, length = ancestors.shape
    n = positions.shape[2]
    is_own = ancestors[..., None] == numbers(w, ancestors.device)  # [G, w, T, w]
    if n > 1:
        is_past = torch.arange(length, device=ancestors.device) <= positions[..., None]  # [G, w, n, T]
        is_own = is_own[:, :, None] & is_past[..., None]
    return is_own.view(groups, 1, w * n, length * w)
