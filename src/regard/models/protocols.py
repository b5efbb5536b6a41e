"""What an encoder hands to a decoder, and what both hand to those who look inside."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from regard.nn.attention import AttentionTrace


@dataclass(frozen=True)
class Memory:
    """The source as the encoder sees it."""

    values: Tensor
    """[B, S, D]"""
    mask: Tensor
    """[B, S] bool: where there is something"""
    summary: Tensor
    """[B, D]: all of it in one vector"""
    traces: list[AttentionTrace] = field(default_factory=list)
    """[B, H, …], one a layer of self-attention, if asked for"""

    def select(self, rows: Tensor) -> "Memory":
        values, mask, summary = (t.index_select(0, rows) for t in (self.values, self.mask, self.summary))
        return Memory(values, mask, summary)

    @property
    def may_attend(self) -> Tensor:
        return self.mask[:, None, None, :]


def mean_of(values: Tensor, mask: Tensor) -> Tensor:
    """values [B, S, D] over the places of mask [B, S] → [B, D]"""
    shares = mask.to(values.dtype)[..., None]
    return (values * shares).sum(1) / shares.sum(1)


@dataclass(frozen=True)
class AttentionTraces:
    """Attention at work on a batch, [B, H, …], one a layer of each kind."""

    encoder: list[AttentionTrace]
    decoder: list[AttentionTrace]
    cross: list[AttentionTrace]


class Decoded(NamedTuple):
    """A decoder's answer to a whole target: vectors [B, T, D] and, if asked for, its layers' looks."""

    hidden: Tensor
    own: list[AttentionTrace]
    cross: list[AttentionTrace]


class Encoder(Protocol):
    d_model: int

    def __call__(self, src: Tensor, need_trace: bool = False) -> Memory: ...


class Decoder(Protocol):
    """Reads target tokens, with or without a memory of a source."""

    d_out: int
    max_len: int | None

    def __call__(self, ids: Tensor, memory: Memory | None, need_trace: bool = False) -> Decoded: ...

    def start(self, memory: Memory | None, rows: int) -> Any:
        """A state with one row a sentence, before the first token."""
        ...

    def step(self, state: Any, ids: Tensor) -> tuple[Tensor, Any]:
        """ids [R] → vectors [R, D], and the state after"""
        ...


def present(traces: list[AttentionTrace | None]) -> list[AttentionTrace]:
    return [trace for trace in traces if trace is not None]


def token_table(vocab_size: int, d_model: int) -> torch.nn.Embedding:
    table = torch.nn.Embedding(vocab_size, d_model)
    torch.nn.init.normal_(table.weight, std=d_model**-0.5)
    return table
