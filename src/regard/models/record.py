"""Attention weights of one sentence as data."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from regard.errors import UserError
from regard.text.vocab import BOS, SPECIALS
from regard.text.words import join_pieces, word_indices

Weights = NDArray[np.float32]
KINDS = ("encoder", "decoder", "cross")
_TOKENS = ("source_tokens", "target_tokens", "read_tokens")


@dataclass(frozen=True)
class AttentionRecord:
    """Where each head looked. Every array is [layers, heads, from, to], each row sums to one.

    `decoder` row t and `cross` row t belong to the step that produced target token t. A model without one kind of
    attention has no layers of it.
    """

    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    encoder: Weights
    decoder: Weights
    cross: Weights
    read_tokens: tuple[str, ...] = ()
    """What the decoder looks back at: the start, and the target but its last token"""

    def __post_init__(self) -> None:
        if not self.read_tokens and self.target_tokens:
            object.__setattr__(self, "read_tokens", (SPECIALS[BOS], *self.target_tokens[:-1]))

    def weights(self, kind: str) -> Weights:
        if kind not in KINDS:
            raise UserError(f"attention of kind '{kind}' is unknown; choose one of {', '.join(KINDS)}")
        found: Weights = getattr(self, kind)
        return found

    def tokens(self, kind: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What the rows and the columns of a kind stand for"""
        rows = self.source_tokens if kind == "encoder" else self.target_tokens
        return rows, self.read_tokens if kind == "decoder" else self.source_tokens

    def only(self, layer: int | None = None, head: int | None = None, kind: str | None = None) -> "AttentionRecord":
        """That layer and that head of every kind, or of the one that is asked for; None keeps all of them.

        Encoder and decoder may have different numbers of them: what is asked of one need not be in the other.
        """
        for asked in KINDS if kind is None else (kind,):
            weights = self.weights(asked)
            for name, index, n in zip(("layer", "head"), (layer, head), weights.shape, strict=False):
                if index is not None and weights.size and not 0 <= index < n:
                    raise UserError(f"there is no {name} {index}; this model has 0 to {n - 1}")

        def part(weights: Weights) -> Weights:
            layers = slice(None) if layer is None else slice(layer, layer + 1)
            heads = slice(None) if head is None else slice(head, head + 1)
            return weights[layers, heads]

        return self._with_each(part)

    def mean(self) -> "AttentionRecord":
        """One layer with one head, the mean over all of them"""

        def averaged(weights: Weights) -> Weights:
            return weights.mean((0, 1), keepdims=True) if weights.size else weights

        return self._with_each(averaged)

    def words(self, specials: bool = False) -> "AttentionRecord":
        """Words in the place of tokens: weights on the pieces of a word are summed, those of its pieces averaged.

        Special tokens are left out, so that rows may sum to less than one, or kept as words of their own.
        """
        src, tgt, read = (_Grouping.of(getattr(self, side), specials) for side in _TOKENS)
        return AttentionRecord(
            src.names,
            tgt.names,
            encoder=src.rows(self.encoder, src),
            decoder=tgt.rows(self.decoder, read),
            cross=tgt.rows(self.cross, src),
            read_tokens=read.names,
        )

    def statistics(self, kind: str) -> dict[str, NDArray[np.float64]]:
        """Of each head [layers, heads], means over the rows.

        entropy: in bits, 0 where a head looks at one place alone. distance: how far it looks, in places. diagonality:
        its weight within a place of the (stretched) diagonal. special: its weight on special tokens.
        """
        weights = self.weights(kind).astype(np.float64)
        rows, columns = self.tokens(kind)
        logs = np.log2(weights, out=np.zeros_like(weights), where=weights > 0)
        place = np.arange(len(columns))
        diagonal = np.linspace(0, max(0, len(columns) - 1), num=len(rows))[:, None]
        near = (np.abs(place - diagonal) <= 1).astype(float)
        special = np.asarray([token in SPECIALS for token in columns], dtype=float)
        return {
            "entropy": -(weights * logs).sum(-1).mean(-1),
            "distance": (weights * np.abs(place - np.arange(len(rows))[:, None])).sum(-1).mean(-1),
            "diagonality": (weights * near).sum(-1).mean(-1),
            "special": (weights * special).sum(-1).mean(-1),
        }

    def _with_each(self, change: Callable[[Weights], Weights]) -> "AttentionRecord":
        encoder, decoder, cross = (change(self.weights(kind)) for kind in KINDS)
        return AttentionRecord(self.source_tokens, self.target_tokens, encoder, decoder, cross, self.read_tokens)

    def to_json(self) -> str:
        tree = asdict(self) | {kind: self.weights(kind).tolist() for kind in KINDS}
        shapes = {kind: self.weights(kind).shape for kind in KINDS}  # a list of nothing does not tell its shape
        return json.dumps({**tree, "shapes": shapes}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "AttentionRecord":
        try:
            tree = json.loads(text)
            arrays = {k: np.asarray(tree[k], dtype=np.float32).reshape(tree["shapes"][k]) for k in KINDS}
            return _record(tree, arrays)
        except (ValueError, KeyError, TypeError, RecursionError):
            raise UserError("this is no attention record in JSON") from None

    def to_safetensors(self) -> bytes:
        tokens = {side: json.dumps(getattr(self, side), ensure_ascii=False) for side in _TOKENS}
        return save({kind: np.ascontiguousarray(self.weights(kind)) for kind in KINDS}, metadata=tokens)

    @classmethod
    def from_safetensors(cls, content: bytes) -> "AttentionRecord":
        try:
            metadata = _metadata(content)
            return _record({side: json.loads(metadata[side]) for side in _TOKENS}, load(content))
        except (SafetensorError, ValueError, KeyError, TypeError):
            raise UserError("this is no attention record in safetensors") from None


def _record(tokens: Mapping[str, Any], arrays: Mapping[str, Weights]) -> AttentionRecord:
    src, tgt, read = (tuple(str(token) for token in tokens[side]) for side in _TOKENS)
    return AttentionRecord(src, tgt, arrays["encoder"], arrays["decoder"], arrays["cross"], read)


@dataclass(frozen=True)
class HeadRecord:
    """One head at work on one sentence, row by row: softmax(scores where mask) is weights, weights · v its output."""

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

    @property
    def output(self) -> Weights:
        return self.weights @ self.v


@dataclass(frozen=True)
class _Grouping:
    """Tokens gathered into words, as matrices"""

    names: tuple[str, ...]
    belongs: Weights
    """[tokens, words]: 1 where the token is of the word"""

    def rows(self, weights: Weights, columns: "_Grouping") -> Weights:
        """From tokens to tokens → from these words, a mean over each, to the other ones, a sum over each"""
        shares = self.belongs / np.maximum(self.belongs.sum(0), 1.0)
        merged: Weights = (shares.T @ weights @ columns.belongs).astype(np.float32)
        return merged

    @classmethod
    def of(cls, tokens: tuple[str, ...], specials: bool) -> "_Grouping":
        groups: dict[object, list[int]] = {}
        for place, (token, word) in enumerate(zip(tokens, word_indices(tokens), strict=True)):
            if word >= 0:
                groups.setdefault(word, []).append(place)
            elif specials and token in SPECIALS:
                groups[f"special {place}"] = [place]
        belongs = np.zeros((len(tokens), len(groups)), dtype=np.float32)
        for column, places in enumerate(groups.values()):
            belongs[places, column] = 1.0
        names = tuple(join_pieces([tokens[i] for i in places]) for places in groups.values())
        return cls(names, belongs)


def _metadata(content: bytes) -> dict[str, Any]:
    """Of a safetensors file: its header is JSON behind eight bytes of its length"""
    length = int.from_bytes(content[:8], "little")
    found: dict[str, Any] = json.loads(content[8 : 8 + length])["__metadata__"]
    return found
