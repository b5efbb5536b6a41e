"""What encoders, decoders and whole models have in common, and the values that they exchange."""

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar

from torch import Tensor

from regard.models.intervention import Intervention
from regard.nn.attention import AttentionTrace


@dataclass(frozen=True)
class Memory:
    """The encoded source."""

    values: Tensor
    """One vector per source token [B, S, D]"""
    mask: Tensor
    """[B, S] bool: False = padding"""
    summary: Tensor
    """The whole source as one vector [B, D]"""
    traces: list[AttentionTrace] = field(default_factory=list)
    """One per layer of self-attention, [B, H, …], if requested"""

    def select(self, rows: Tensor) -> "Memory":
        values, mask, summary = (t.index_select(0, rows) for t in (self.values, self.mask, self.summary))
        return Memory(values, mask, summary)

    @property
    def may_attend(self) -> Tensor:
        """The mask as attention takes it [B, 1, 1, S]"""
        return self.mask[:, None, None, :]


@dataclass(frozen=True)
class AttentionTraces:
    """Traces of a batch, one per layer and kind of attention, each [B, H, …]."""

    encoder: list[AttentionTrace]
    decoder: list[AttentionTrace]
    cross: list[AttentionTrace]


class Decoded(NamedTuple):
    """What a decoder returns for a whole target: vectors [B, T, D] and, if requested, its traces."""

    hidden: Tensor
    self_traces: list[AttentionTrace]
    cross_traces: list[AttentionTrace]


class AttentionModule(Protocol):
    """A module that computes attention, with the settings needed to recompute it."""

    n_heads: int
    score_name: str
    """A name in nn.scores.SCORES, or "linear" """
    normalise: str
    score_bias: str
    """What is added to the scores: "none", "alibi", or "gaussian" in local attention"""
    context: str
    """Where the output goes: "layer" in a Transformer, "output" (the prediction) or "input" of an RNN decoder"""


class Encoder(Protocol):
    """Turns sources into vectors."""

    d_model: int
    max_len: int | None
    """Longest source, counting EOS; None: no limit"""
    can_hide_tokens: bool
    """Whether single source tokens can be masked: attention can leave a token out, a recurrence cannot"""

    def __call__(self, src: Tensor, need_trace: bool = False, intervention: Intervention | None = None) -> Memory: ...

    def attention_modules(self) -> list[AttentionModule]:
        """Self-attention, one module per layer; empty if the encoder has none."""
        ...


class DecoderState(Protocol):
    """What a decoder remembers between steps: one row per hypothesis, and the source once per sentence."""

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> "DecoderState":
        """Return the state of the hypotheses `rows`, in that order; see `search.protocols.State`."""
        ...


DecoderStateT = TypeVar("DecoderStateT", bound=DecoderState)


class Decoder(Protocol[DecoderStateT]):
    """Reads target tokens, with or without an encoded source."""

    d_out: int
    max_len: int | None
    """Longest target, counting BOS; None: no limit"""
    max_memory_len: int | None
    """Longest encoded source that cross-attention can process; None: no limit"""

    def __call__(
        self, ids: Tensor, memory: Memory | None, need_trace: bool = False, intervention: Intervention | None = None
    ) -> Decoded: ...

    def start(self, memory: Memory | None, rows: int, intervention: Intervention | None = None) -> DecoderStateT:
        """Return the state before the first token, one row per sentence."""
        ...

    def step(self, state: DecoderStateT, ids: Tensor) -> tuple[Tensor, DecoderStateT]:
        """Read one token per row, ids [R] → vectors [R, D] and the state after"""
        ...

    def read(self, state: DecoderStateT, ids: Tensor) -> DecoderStateT:
        """Read several tokens per row, ids [R, n], and return the state after them."""
        ...

    def attention_modules(self, kind: str) -> list[AttentionModule]:
        """Attention of kind "decoder" (self) or "cross", one module per layer."""
        ...

    def state_size(self, n_tokens: int) -> int:
        """Numbers that the state holds per hypothesis after `n_tokens`; the source is not counted."""
        ...
