"""Recurrent encoder and decoder, without attention and with any score of it."""

from dataclasses import dataclass
from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.config import Config
from regard.models.protocols import Decoded, Memory
from regard.nn.attention import AttentionTrace, attend_traced
from regard.nn.recurrent import BidirectionalLayer, ForwardLayer, Recurrent, RecurrentState, last
from regard.nn.scores import make_score
from regard.text.vocab import PAD


class RnnEncoderConfig(Config):
    kind: Literal["rnn"] = "rnn"
    cell: Literal["gru", "lstm"] = "gru"
    d_model: int = Field(512, ge=2)
    """Width of the embeddings and of the states."""
    n_layers: int = Field(1, ge=1)
    bidirectional: bool = True
    """Half of the width reads from the front, half from the back."""
    dropout: float = Field(0.1, ge=0.0, lt=1.0)

    @model_validator(mode="after")
    def halves(self) -> Self:
        if self.bidirectional and self.d_model % 2:
            raise ValueError(f"d_model={self.d_model} must be even for two directions")
        return self


class RnnDecoderConfig(Config):
    kind: Literal["rnn"] = "rnn"
    cell: Literal["gru", "lstm"] = "gru"
    d_model: int = Field(512, ge=1)
    n_layers: int = Field(1, ge=1)
    dropout: float = Field(0.1, ge=0.0, lt=1.0)
    attention: Literal["none", "dot", "scaled-dot", "cosine", "bilinear", "additive", "location"] = "dot"
    """The score; none: the source is known by the first state alone."""
    normalise: Literal["softmax", "sum", "none"] = "softmax"
    context: Literal["output", "input"] = "output"
    """Where the context goes: beside the state into the prediction (USC), or into the next input (Purdue)."""
    max_len: int = Field(256, ge=1)
    """Positions of the location score."""

    @property
    def longest(self) -> int | None:
        """The longest source that has positions; None: any"""
        return self.max_len if self.attention == "location" else None

    @model_validator(mode="after")
    def widths_fit(self) -> Self:
        if self.context == "input" and self.attention in ("dot", "scaled-dot", "cosine"):
            raise ValueError(
                "context=input asks with [state ; input], which is wider than the keys; "
                "use attention=location, bilinear or additive"
            )
        return self


class RnnEncoder(nn.Module):
    def __init__(self, config: RnnEncoderConfig, tokens: nn.Embedding) -> None:
        super().__init__()
        self.tokens = tokens
        layer = BidirectionalLayer if config.bidirectional else ForwardLayer
        self.layers = nn.ModuleList(layer(config.cell, config.d_model, config.d_model) for _ in range(config.n_layers))
        self.dropout = nn.Dropout(config.dropout)
        self.bidirectional = config.bidirectional
        self.d_model = config.d_model

    def forward(self, src: Tensor, need_trace: bool = False) -> Memory:
        """src [B, S] ids; the summary is the last state (of both directions: each at the end of its way)"""
        mask = src != PAD
        lengths = mask.sum(1)
        x = self.dropout(self.tokens(src))
        for layer in self.layers:
            x = self.dropout(layer(x, lengths))
        x = x.masked_fill(~mask[..., None], 0.0)
        if not self.bidirectional:
            return Memory(x, mask, last(x, lengths))
        ahead, _ = last(x, lengths).chunk(2, dim=-1)
        _, back = x[:, 0].chunk(2, dim=-1)
        return Memory(x, mask, torch.cat([ahead, back], dim=-1))


@dataclass(frozen=True)
class RnnState:
    rnn: RecurrentState
    memory: Memory | None

    def select(self, rows: Tensor) -> "RnnState":
        return RnnState(self.rnn.select(rows), None if self.memory is None else self.memory.select(rows))


class RnnDecoder(nn.Module):
    """Without a memory it is a language model."""

    max_len = None

    def __init__(self, config: RnnDecoderConfig, tokens: nn.Embedding, d_memory: int | None) -> None:
        super().__init__()
        d, self.attends = config.d_model, config.attention != "none" and d_memory is not None
        self.config = config
        self.tokens = tokens
        self.dropout = nn.Dropout(config.dropout)
        self.rnn = Recurrent(config.cell, d, d, config.n_layers, config.dropout)
        self.first = None if d_memory is None else nn.Linear(d_memory, config.n_layers * d)
        self.d_out = d
        if self.attends and d_memory is not None:
            feeds = config.context == "input"
            self.score = make_score(config.attention, 2 * d if feeds else d, d_memory, config.max_len)
            self.join = nn.Linear(d + d_memory, d) if feeds else None
            self.d_out = d if feeds else d + d_memory

    def forward(self, ids: Tensor, memory: Memory | None, need_trace: bool = False) -> Decoded:
        """ids [B, T] → [B, T, d_out], and the look of attention, as of one head"""
        x, state = self.dropout(self.tokens(ids)), self.start(memory, len(ids)).rnn
        seen: AttentionTrace | None
        if memory is not None and self.attends and self.config.context == "input":
            hidden, seen = self._feed_all(x, state, memory)
        else:
            hidden, _, seen = self._run(x, state, memory)
        cross = [AttentionTrace(*(t[:, None] for t in seen))] if need_trace and seen is not None else []
        return Decoded(self.dropout(hidden), [], cross)

    def start(self, memory: Memory | None, rows: int) -> RnnState:
        d, n = self.config.d_model, self.config.n_layers
        if memory is None or self.first is None:
            h = self.tokens.weight.new_zeros(rows, n, d)
        else:
            h = self.first(memory.summary).tanh().unflatten(-1, (n, d))
        return RnnState(self.rnn.initial(h), memory)

    def step(self, state: RnnState, ids: Tensor) -> tuple[Tensor, RnnState]:
        x, memory = self.tokens(ids[:, None]), state.memory
        if memory is not None and self.attends and self.config.context == "input":
            h, after, _ = self._feed(x, state.rnn, memory)
        else:
            h, after, _ = self._run(x, state.rnn, memory)
        return h[:, -1], RnnState(after, memory)

    def _run(
        self, x: Tensor, state: RecurrentState, memory: Memory | None
    ) -> tuple[Tensor, RecurrentState, AttentionTrace | None]:
        """h_t = RNN(x_t, h_{t−1});  α = softmax(e(h_t, H));  c_t = Σ α_j h_j;  → [c_t ; h_t]"""
        h, state = self.rnn(x, state)
        if memory is None or not self.attends:
            return h, state, None
        seen = self._look(h, memory)
        return torch.cat([seen.output, h], dim=-1), state, seen

    def _feed_all(self, x: Tensor, state: RecurrentState, memory: Memory) -> tuple[Tensor, AttentionTrace]:
        hidden, steps = [], []
        for t in range(x.shape[1]):
            h, state, seen = self._feed(x[:, t : t + 1], state, memory)
            hidden.append(h)
            steps.append(seen)
        return torch.cat(hidden, dim=1), _one_behind_the_other(steps)

    def _feed(self, x: Tensor, state: RecurrentState, memory: Memory) -> tuple[Tensor, RecurrentState, AttentionTrace]:
        """q = [h_{t−1} ; x_t];  c = Σ softmax(e(q, H)) h_j;  z = ReLU(W_c [x_t ; c] + b_c);  h_t = RNN(z, h_{t−1})"""
        assert self.join is not None
        q = torch.cat([state.h[:, -1:].to(x.dtype), x], dim=-1)
        seen = self._look(q, memory)
        z = self.join(torch.cat([x, seen.output], dim=-1)).relu()
        h, state = self.rnn(z, state)
        return h, state, seen

    def _look(self, q: Tensor, memory: Memory) -> AttentionTrace:
        return attend_traced(
            q, memory.values, memory.values, self.score, memory.mask[:, None, :], self.config.normalise
        )


def _one_behind_the_other(steps: list[AttentionTrace]) -> AttentionTrace:
    """Looks of one query each at the same keys → one of all queries"""
    q, scores, mask, weights = (torch.cat([getattr(step, name) for step in steps], dim=1) for name in _OF_QUERIES)
    return AttentionTrace(q, steps[0].k, steps[0].v, scores, mask, weights)


_OF_QUERIES = ("q", "scores", "mask", "weights")
