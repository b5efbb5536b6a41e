"""Attention of one sentence as data: all weights, or one head with its queries, keys and values."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from regard.errors import UserError
from regard.models.protocols import AttentionTraces
from regard.nn.attention import AttentionTrace
from regard.text.attention_html import attention_html
from regard.text.labels import token_labels
from regard.text.vocab import BOS, SPECIALS
from regard.text.words import join_pieces, word_indices

Weights = NDArray[np.float32]
KINDS = ("encoder", "decoder", "cross")
_TOKENS = ("source_tokens", "target_tokens", "read_tokens")


@dataclass(frozen=True, repr=False)
class AttentionRecord:
    """The attention weights of every layer and head, one array [layers, heads, from, to] per kind of attention.

    Row t of `decoder` and `cross` belongs to the step that generated target token t. Rows sum to 1, except for linear
    and unnormalised attention, and for decoder-only translators, where row t of both together sums to 1. An array has
    no layers if the model has no attention of that kind.

    >>> import numpy as np
    >>> weights = np.array([[[[0.75, 0.25], [0.5, 0.5]]]], dtype=np.float32)
    >>> nothing = np.zeros((0, 0, 2, 2), dtype=np.float32)
    >>> record = AttentionRecord(("▁green", "▁witch"), ("▁sorcière", "▁verte"), nothing, nothing, weights)
    >>> record.select(layer=0, head=0).cross[0, 0].tolist()
    [[0.75, 0.25], [0.5, 0.5]]
    >>> AttentionRecord.from_json(record.to_json()).target_tokens
    ('▁sorcière', '▁verte')
    """

    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    encoder: Weights
    decoder: Weights
    cross: Weights
    read_tokens: tuple[str, ...] = ()
    """The inputs of the decoder: BOS and all target tokens but the last"""

    def __post_init__(self) -> None:
        if not self.read_tokens and self.target_tokens:
            object.__setattr__(self, "read_tokens", (SPECIALS[BOS], *self.target_tokens[:-1]))

    def __repr__(self) -> str:
        shapes = ", ".join(f"{kind} {list(self.weights(kind).shape)}" for kind in KINDS)
        return f"AttentionRecord({shapes})"

    def _repr_html_(self) -> str:
        """Show each kind of attention in a notebook: its mean as a table, its heads as images."""
        kinds = [kind for kind in reversed(KINDS) if self.weights(kind).size]
        parts = []
        for kind in kinds:
            rows, columns = map(token_labels, self.axis_tokens(kind))
            parts.append(attention_html(kind, rows, columns, self.weights(kind), opened=kind == kinds[0]))
        return "".join(parts) or "<p>no attention</p>"

    @classmethod
    def from_traces(cls, traces: AttentionTraces, source: Sequence[str], target: Sequence[str]) -> "AttentionRecord":
        """Make the record of a batch of one sentence that consists of these tokens."""
        s, t = len(source), len(target)
        return cls(
            tuple(source),
            tuple(target),
            encoder=_stack_weights(traces.encoder, s, s),
            decoder=_stack_weights(traces.decoder, t, t),
            cross=_stack_weights(traces.cross, t, s),
        )

    def weights(self, kind: str) -> Weights:
        """Return the weights of kind "encoder", "decoder" or "cross"."""
        if kind not in KINDS:
            raise UserError(f"attention of kind '{kind}' is unknown; choose one of {', '.join(KINDS)}")
        weights: Weights = getattr(self, kind)
        return weights

    def axis_tokens(self, kind: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the tokens of the rows and of the columns."""
        rows = self.source_tokens if kind == "encoder" else self.target_tokens
        return rows, self.read_tokens if kind == "decoder" else self.source_tokens

    def select(self, layer: int | None = None, head: int | None = None, kind: str | None = None) -> "AttentionRecord":
        """Keep one layer and one head; None keeps all of them.

        They must exist in the given kind of attention, or in every kind if `kind` is None.
        """
        for checked in KINDS if kind is None else (kind,):
            weights = self.weights(checked)
            for name, index, n in zip(("layer", "head"), (layer, head), weights.shape, strict=False):
                if index is not None and weights.size and not 0 <= index < n:
                    raise UserError(f"there is no {name} {index}; this model has 0 to {n - 1}")

        def part(weights: Weights) -> Weights:
            layers = slice(None) if layer is None else slice(layer, layer + 1)
            heads = slice(None) if head is None else slice(head, head + 1)
            return weights[layers, heads]

        return self._with_each(part)

    def mean(self) -> "AttentionRecord":
        """Average over all layers and heads, leaving one layer with one head."""

        def averaged(weights: Weights) -> Weights:
            return weights.mean((0, 1), keepdims=True) if weights.size else weights

        return self._with_each(averaged)

    def merge_words(self, specials: bool = False) -> "AttentionRecord":
        """Merge tokens into words: sum the weights on the pieces of a word, average over the pieces that attend.

        Special tokens are left out, so rows may sum to less than 1, or with `specials` kept as separate words.
        """
        src, tgt, read = (_WordGroups.of(getattr(self, side), specials) for side in _TOKENS)
        return AttentionRecord(
            src.names,
            tgt.names,
            encoder=src.merge(self.encoder, src),
            decoder=tgt.merge(self.decoder, read),
            cross=tgt.merge(self.cross, src),
            read_tokens=read.names,
        )

    def statistics(self, kind: str) -> dict[str, NDArray[np.float64]]:
        """Compute statistics of each head [layers, heads], averaged over the rows.

        entropy: in bits, 0 for a head that attends to one token only. distance: mean distance to the attended token.
        diagonality: weight within one position of the (stretched) diagonal. special: weight on special tokens.
        """
        weights = self.weights(kind).astype(np.float64)
        rows, columns = self.axis_tokens(kind)
        logs = np.log2(weights, out=np.zeros_like(weights), where=weights > 0)
        position = np.arange(len(columns))
        diagonal = np.linspace(0, max(0, len(columns) - 1), num=len(rows))[:, None]
        near = (np.abs(position - diagonal) <= 1).astype(float)
        special = np.asarray([token in SPECIALS for token in columns], dtype=float)
        return {
            "entropy": -(weights * logs).sum(-1).mean(-1),
            "distance": (weights * np.abs(position - np.arange(len(rows))[:, None])).sum(-1).mean(-1),
            "diagonality": (weights * near).sum(-1).mean(-1),
            "special": (weights * special).sum(-1).mean(-1),
        }

    def _with_each(self, change: Callable[[Weights], Weights]) -> "AttentionRecord":
        encoder, decoder, cross = (change(self.weights(kind)) for kind in KINDS)
        return AttentionRecord(self.source_tokens, self.target_tokens, encoder, decoder, cross, self.read_tokens)

    def to_json(self) -> str:
        tree = asdict(self) | {kind: self.weights(kind).tolist() for kind in KINDS}
        shapes = {kind: self.weights(kind).shape for kind in KINDS}  # an empty list has no shape
        return json.dumps({**tree, "shapes": shapes}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "AttentionRecord":
        try:
            tree = json.loads(text)
            arrays = {k: np.asarray(tree[k], dtype=np.float32).reshape(tree["shapes"][k]) for k in KINDS}
            return _record(tree, arrays)
        except (ValueError, KeyError, TypeError, RecursionError):
            raise UserError("this is not an attention record in JSON") from None

    def to_safetensors(self) -> bytes:
        tokens = {side: json.dumps(getattr(self, side), ensure_ascii=False) for side in _TOKENS}
        return save({kind: np.ascontiguousarray(self.weights(kind)) for kind in KINDS}, metadata=tokens)

    @classmethod
    def from_safetensors(cls, content: bytes) -> "AttentionRecord":
        try:
            metadata = _metadata(content)
            return _record({side: json.loads(metadata[side]) for side in _TOKENS}, load(content))
        except (SafetensorError, ValueError, KeyError, TypeError):
            raise UserError("this is not an attention record in safetensors") from None


def _record(tokens: Mapping[str, Any], arrays: Mapping[str, Weights]) -> AttentionRecord:
    src, tgt, read = (tuple(str(token) for token in tokens[side]) for side in _TOKENS)
    return AttentionRecord(src, tgt, arrays["encoder"], arrays["decoder"], arrays["cross"], read)


@dataclass(frozen=True)
class HeadRecord:
    """One head on one sentence: weights are the normalised scores where mask is True, output = weights · v."""

    kind: str
    layer: int
    head: int
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    q: Weights
    """[rows, K]"""
    k: Weights
    """[columns, K]"""
    v: Weights
    """[columns, K]"""
    scores: Weights
    """[rows, columns], before the mask"""
    mask: NDArray[np.bool_]
    """[rows, columns]: True = may attend"""
    weights: Weights
    """[rows, columns]"""

    @classmethod
    def from_traces(
        cls, traces: AttentionTraces, record: AttentionRecord, kind: str, layer: int, head: int
    ) -> "HeadRecord":
        """Take one head of the traces from which `record` was made."""
        weights = record.select(layer, head, kind).weights(kind)
        if not weights.size:
            raise UserError(f"this model has no {kind} attention")
        trace: AttentionTrace = getattr(traces, kind)[layer]
        q, k, v, scores, mask, _ = (_to_numpy(part[0, head]) for part in trace)
        rows, columns = record.axis_tokens(kind)
        return cls(kind, layer, head, rows, columns, q, k, v, scores, mask.astype(bool), weights[0, 0])

    @property
    def output(self) -> Weights:
        return self.weights @ self.v


@dataclass(frozen=True)
class _WordGroups:
    """Which tokens belong to which word, as a matrix"""

    names: tuple[str, ...]
    membership: Weights
    """[tokens, words]: 1 where the token belongs to the word"""

    def merge(self, weights: Weights, columns: "_WordGroups") -> Weights:
        """Merge token weights into word weights: the mean over the rows of a word, the sum over its columns."""
        means = self.membership / np.maximum(self.membership.sum(0), 1.0)
        merged: Weights = (means.T @ weights @ columns.membership).astype(np.float32)
        return merged

    @classmethod
    def of(cls, tokens: tuple[str, ...], specials: bool) -> "_WordGroups":
        groups: dict[object, list[int]] = {}
        for position, (token, word) in enumerate(zip(tokens, word_indices(tokens), strict=True)):
            if word >= 0:
                groups.setdefault(word, []).append(position)
            elif specials and token in SPECIALS:
                groups[f"special {position}"] = [position]
        membership = np.zeros((len(tokens), len(groups)), dtype=np.float32)
        for column, positions in enumerate(groups.values()):
            membership[positions, column] = 1.0
        names = tuple(join_pieces([tokens[i] for i in positions]) for positions in groups.values())
        return cls(names, membership)


def _metadata(content: bytes) -> dict[str, Any]:
    """Read the metadata of a safetensors file: its header is JSON after eight bytes with the header's length."""
    length = int.from_bytes(content[:8], "little")
    metadata: dict[str, Any] = json.loads(content[8 : 8 + length])["__metadata__"]
    return metadata


def _stack_weights(traces: Sequence[AttentionTrace], n_from: int, n_to: int) -> Weights:
    """Stack the weights of all layers [layers, heads, from, to]; no traces give no layers."""
    if not traces:
        return np.zeros((0, 0, n_from, n_to), dtype=np.float32)
    return np.stack([_to_numpy(trace.weights[0]) for trace in traces])


def _to_numpy(tensor: torch.Tensor) -> Weights:
    array: Weights = tensor.detach().float().cpu().numpy()
    return array
