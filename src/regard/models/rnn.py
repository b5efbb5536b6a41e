"""Recurrent encoder and decoder, with any attention score or without attention."""

from dataclasses import dataclass
from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.config import Config
from regard.models.intervention import Intervention
from regard.models.protocols import AttentionModule, Decoded, Memory
from regard.models.sizes import LayerCount, SequenceLength, Width
from regard.nn.attention import AttentionTrace, attend_traced
from regard.nn.local_attention import LocalWindow
from regard.nn.recurrent import BidirectionalLayer, ForwardLayer, Recurrent, RecurrentState, last_token
from regard.nn.scores import Location, make_score
from regard.text.vocab import PAD

CellKind = Literal["rnn", "gru", "lstm"]


class RnnEncoderConfig(Config):
    kind: Literal["rnn"] = "rnn"
    cell: CellKind = "gru"
    """rnn is the simple (Elman) cell, tanh(W x + U h + b)."""
    d_model: Width = 512
    """Width of embeddings and hidden states."""
    n_layers: LayerCount = 1
    bidirectional: bool = True
    """Half of the width reads from left to right, half from right to left."""
    dropout: float = Field(0.1, ge=0.0, lt=1.0)

    @model_validator(mode="after")
    def _check_width(self) -> Self:
        if self.bidirectional and self.d_model % 2:
            raise ValueError(f"d_model={self.d_model} must be even for a bidirectional encoder")
        return self


class RnnDecoderConfig(Config):
    kind: Literal["rnn"] = "rnn"
    cell: CellKind = "gru"
    d_model: Width = 512
    n_layers: LayerCount = 1
    dropout: float = Field(0.1, ge=0.0, lt=1.0)
    attention: Literal["none", "dot", "scaled-dot", "cosine", "bilinear", "additive", "location"] = "dot"
    """The attention score; none: the decoder knows the source through its initial state only."""
    normalise: Literal["softmax", "hardmax", "sum", "none"] = "softmax"
    normalise_over: Literal["source", "max_len"] = "source"
    """What the softmax of the location score sums over: the source, or all max_len positions as in the lecture
    (Purdue), where the weights of positions after the source are lost."""
    local: Literal["none", "monotonic", "predictive"] = "none"
    """Attend to a window of the source (Luong et al., 2015) around the position of the target token, or around a
    predicted position."""
    window: int = Field(5, ge=1, le=10_000)
    """Local attention sees this many tokens on each side of its centre."""
    context: Literal["output", "input"] = "output"
    """Where the context vector goes: into the prediction, next to the state (USC), or into the next input (Purdue)."""
    max_len: SequenceLength = 256
    """Longest source for the location score."""

    @property
    def max_positions(self) -> int | None:
        """Longest source that the decoder can attend to; None: no limit"""
        return self.max_len if self.attention == "location" else None

    @model_validator(mode="after")
    def _check_score(self) -> Self:
        if self.context == "input" and self.attention in ("dot", "scaled-dot", "cosine"):
            raise ValueError(
                "with context=input the query is [state ; input], which is wider than the keys; "
                "use attention=location, bilinear or additive"
            )
        if self.normalise_over == "max_len" and (self.attention, self.normalise) != ("location", "softmax"):
            raise ValueError("normalise_over=max_len needs attention=location and normalise=softmax")
        if self.local != "none" and (self.attention == "none" or self.normalise != "softmax"):
            raise ValueError(f"local={self.local} needs attention and normalise=softmax")
        if self.local != "none" and self.normalise_over == "max_len":
            raise ValueError(f"local={self.local} sums over its window; leave out normalise_over")
        return self


class RnnEncoder(nn.Module):
    """Reads the source with recurrent layers, in one or two directions."""

    can_hide_tokens = False  # the recurrence reads every token
    max_len: int | None = None

    def __init__(self, config: RnnEncoderConfig, tokens: nn.Embedding) -> None:
        super().__init__()
        self.tokens = tokens
        layer = BidirectionalLayer if config.bidirectional else ForwardLayer
        self.layers = nn.ModuleList(layer(config.cell, config.d_model, config.d_model) for _ in range(config.n_layers))
        self.dropout = nn.Dropout(config.dropout)
        self.bidirectional = config.bidirectional
        self.d_model = config.d_model

    def forward(self, src: Tensor, need_trace: bool = False, intervention: Intervention | None = None) -> Memory:
        """src [B, S] ids. The summary is the last state, with two directions the last state of each."""
        mask = src != PAD
        lengths = mask.sum(1)
        x = self.dropout(self.tokens(src))
        for i, layer in enumerate(self.layers):
            x = self.dropout(layer(x, lengths))
            if intervention and (replacement := intervention.output_of("encoder", i, 0, x.shape[1])):
                x = replacement(x)
        x = x.masked_fill(~mask[..., None], 0.0)
        if not self.bidirectional:
            return Memory(x, mask, last_token(x, lengths))
        forward, _ = last_token(x, lengths).chunk(2, dim=-1)
        _, backward = x[:, 0].chunk(2, dim=-1)
        return Memory(x, mask, torch.cat([forward, backward], dim=-1))

    def attention_modules(self) -> list[AttentionModule]:
        return []


class RnnAttention(nn.Module):
    """Attention of an RNN decoder: one head over the encoder states, which are both keys and values."""

    n_heads = 1

    def __init__(self, config: RnnDecoderConfig, d_query: int, d_memory: int) -> None:
        super().__init__()
        self.score_name: str = config.attention
        self.context: str = config.context
        self.score = make_score(config.attention, d_query, d_memory, config.max_len)
        self.over_all_positions = config.normalise_over == "max_len"
        self.local = None if config.local == "none" else LocalWindow(config.local, d_query, config.window)
        self.score_bias = "gaussian" if config.local == "predictive" else "none"
        has_log_weights = self.over_all_positions or config.local == "predictive"
        self.normalise: str = "exp" if has_log_weights else config.normalise

    def forward(self, q: Tensor, memory: Memory, start: Tensor | int) -> AttentionTrace:
        """q [R, T, Dq] → trace [N, T·R/N, …]: the R/N hypotheses of a sentence become queries of one source

        `start` is the target position of the first of the T queries, one for all rows or one per row [R].
        """
        values, mask = memory.values, memory.mask[:, None, :]
        queries = q.reshape(len(values), -1, q.shape[-1])
        if self.over_all_positions and isinstance(self.score, Location):
            return attend_traced(queries, values, values, self.score.log_softmax, mask, self.normalise)
        if self.local is None:
            return attend_traced(queries, values, values, self.score, mask, self.normalise)
        first = torch.as_tensor(start, device=q.device).expand(len(q))
        steps = (first[:, None] + torch.arange(q.shape[1], device=q.device)).view(len(values), -1)
        return self._attend_locally(self.local, queries, memory, steps)

    def _attend_locally(self, local: LocalWindow, q: Tensor, memory: Memory, steps: Tensor) -> AttentionTrace:
        centres = local.centres(q, steps, memory.mask.sum(1))
        mask = local.mask(centres, memory.mask[:, None, :])

        def log_weights(q: Tensor, k: Tensor) -> Tensor:
            return local.log_weights(self.score(q, k), centres, mask)

        score = log_weights if self.normalise == "exp" else self.score
        return attend_traced(q, memory.values, memory.values, score, mask, self.normalise)


@dataclass(frozen=True)
class RnnState:
    """Decoder state: the recurrent state per hypothesis, and the encoded source per sentence."""

    rnn: RecurrentState
    memory: Memory | None
    """None: the decoder has no attention"""
    positions: Tensor
    """[R]: tokens that each hypothesis has read"""
    intervention: Intervention | None = None

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> "RnnState":
        memory = self.memory
        if memory is not None and (sentences is None or len(sentences) < len(memory.mask)):
            memory = memory.select(rows if sentences is None else sentences)
        return RnnState(self.rnn.select(rows), memory, self.positions[rows], self.intervention)

    def with_room(self, n_tokens: int) -> "RnnState":
        """Return the state itself: its shapes stay the same from step to step anyway."""
        return self


class RnnDecoder(nn.Module):
    """A recurrent decoder; without an encoded source it is a language model."""

    max_len: int | None = None

    def __init__(self, config: RnnDecoderConfig, tokens: nn.Embedding, d_memory: int | None) -> None:
        super().__init__()
        d = config.d_model
        self.config = config
        self.tokens = tokens
        self.dropout = nn.Dropout(config.dropout)
        self.rnn = Recurrent(config.cell, d, d, config.n_layers, config.dropout)
        self.initial_state = None if d_memory is None else nn.Linear(d_memory, config.n_layers * d)
        self.attention: RnnAttention | None = None
        self.join: nn.Linear | None = None
        self.d_out = d
        self.max_memory_len = config.max_positions
        if config.attention == "none" or d_memory is None:
            return
        if config.context == "input":
            self.attention = RnnAttention(config, 2 * d, d_memory)
            self.join = nn.Linear(d + d_memory, d)
        else:
            self.attention = RnnAttention(config, d, d_memory)
            self.d_out = d + d_memory

    def forward(
        self, ids: Tensor, memory: Memory | None, need_trace: bool = False, intervention: Intervention | None = None
    ) -> Decoded:
        """ids [B, T] → [B, T, d_out] and, if requested, the trace of attention, as one layer with one head"""
        x, state = self.dropout(self.tokens(ids)), self.start(memory, len(ids)).rnn
        trace: AttentionTrace | None
        if self.join is None or memory is None:
            hidden, _, trace = self._context_to_output(x, state, memory)
        else:
            hidden, trace = self._context_to_input_all(x, state, memory)
        cross = [AttentionTrace(*(t[:, None] for t in trace))] if need_trace and trace is not None else []
        return Decoded(self.dropout(self._changed(hidden, intervention, 0)), [], cross)

    def start(self, memory: Memory | None, rows: int, intervention: Intervention | None = None) -> RnnState:
        d, n = self.config.d_model, self.config.n_layers
        if memory is None or self.initial_state is None:
            h = self.tokens.weight.new_zeros(rows, n, d)
        else:
            h = self.initial_state(memory.summary).tanh().unflatten(-1, (n, d))
        positions = torch.zeros(rows, dtype=torch.int64, device=h.device)
        memory = None if self.attention is None else memory
        return RnnState(self.rnn.initial_state(h), memory, positions, intervention)

    def step(self, state: RnnState, ids: Tensor) -> tuple[Tensor, RnnState]:
        x, memory = self.tokens(ids[:, None]), state.memory
        if self.join is None or memory is None:
            h, after, _ = self._context_to_output(x, state.rnn, memory, state.positions)
        else:
            h, after, _ = self._context_to_input(x, state.rnn, memory, state.positions)
        if state.intervention is not None:
            h = self._changed(h, state.intervention, int(state.positions[0]))
        return h[:, -1], RnnState(after, memory, state.positions + 1, state.intervention)

    def read(self, state: RnnState, ids: Tensor) -> RnnState:
        for t in range(ids.shape[1]):
            state = self.step(state, ids[:, t])[1]
        return state

    def attention_modules(self, kind: str) -> list[AttentionModule]:
        return [self.attention] if kind == "cross" and self.attention is not None else []

    def state_size(self, n_tokens: int) -> int:
        """Numbers that the state holds per hypothesis, for any number of tokens; the source is not counted."""
        return self.config.n_layers * self.config.d_model * (2 if self.config.cell == "lstm" else 1)

    def _changed(self, hidden: Tensor, intervention: Intervention | None, start: int) -> Tensor:
        """Replace what the decoder hands over [R, n, d_out] at n positions from `start`."""
        if intervention is None:
            return hidden
        replacement = intervention.output_of("decoder", self.config.n_layers - 1, start, hidden.shape[1])
        return hidden if replacement is None else replacement(hidden)

    def _context_to_output(
        self, x: Tensor, state: RecurrentState, memory: Memory | None, start: Tensor | int = 0
    ) -> tuple[Tensor, RecurrentState, AttentionTrace | None]:
        """h_t = RNN(x_t, h_{t−1});  α = softmax(e(h_t, H));  c_t = Σ α_j h_j;  → [c_t ; h_t]"""
        h, state = self.rnn(x, state)
        if memory is None or self.attention is None:
            return h, state, None
        trace = self.attention(h, memory, start)
        context = trace.output.reshape(*h.shape[:2], -1)
        return torch.cat([context, h], dim=-1), state, trace

    def _context_to_input_all(self, x: Tensor, state: RecurrentState, memory: Memory) -> tuple[Tensor, AttentionTrace]:
        hidden, traces = [], []
        for t in range(x.shape[1]):
            h, state, trace = self._context_to_input(x[:, t : t + 1], state, memory, t)
            hidden.append(h)
            traces.append(trace)
        return torch.cat(hidden, dim=1), _concatenate_queries(traces)

    def _context_to_input(
        self, x: Tensor, state: RecurrentState, memory: Memory, start: Tensor | int
    ) -> tuple[Tensor, RecurrentState, AttentionTrace]:
        """q = [h_{t−1} ; x_t];  c = Σ softmax(e(q, H)) h_j;  z = ReLU(W_c [x_t ; c] + b_c);  h_t = RNN(z, h_{t−1})"""
        assert self.join is not None and self.attention is not None
        q = torch.cat([state.h[:, -1:].to(x.dtype), x], dim=-1)
        trace = self.attention(q, memory, start)
        context = trace.output.reshape(*x.shape[:2], -1)
        z = self.join(torch.cat([x, context], dim=-1)).relu()
        h, state = self.rnn(z, state)
        return h, state, trace


def _concatenate_queries(steps: list[AttentionTrace]) -> AttentionTrace:
    """Join traces of one query each, over the same keys, into one trace of all queries."""
    q, scores, mask, weights = (
        torch.cat([getattr(step, name) for step in steps], dim=1) for name in ("q", "scores", "mask", "weights")
    )
    return AttentionTrace(q, steps[0].k, steps[0].v, scores, mask, weights)
