"""A model as the two functions that an ONNX file holds: the encoder, and one call of the decoder with its cache."""

from functools import cached_property

import torch
from torch import Tensor, nn

from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.layers import DecoderLayer, Source
from regard.models.stack import StackDecoder, StackEncoder
from regard.nn.attention import MultiHeadAttention
from regard.nn.embedding import Embedding
from regard.nn.kv_cache import KeyValue, KvCache, Places
from regard.nn.positions import SinusoidalPositions


class GrowingCache(KvCache):
    """A key-value cache to whose end new entries are appended; a graph cannot write in place."""

    def write(self, places: Places, new: Tensor) -> "GrowingCache":
        return GrowingCache(torch.cat([self.entries, new[:, :, None]], dim=1))


class GrowingPlaces(Places):
    """Places of tokens that follow each other, each row by itself"""

    @cached_property
    def mask(self) -> Tensor:
        """[B, 1, n, length]: a token sees itself and those before it"""
        return torch.arange(self.length) <= self.positions[:, None, :, None]


class EncoderGraph(nn.Module):
    """Source tokens → the keys and values of the source for each decoder layer, side by side"""

    def __init__(self, model: EncoderDecoder, n_positions: int) -> None:
        super().__init__()
        assert isinstance(model.encoder, StackEncoder) and isinstance(model.decoder, StackDecoder)
        assert model.encoder.embedding is not None
        self.encoder: StackEncoder = model.encoder
        self.embedding: Embedding = _with_positions(model.encoder.embedding, n_positions)
        self.decoder: StackDecoder = model.decoder

    def forward(self, input_ids: Tensor, source_mask: Tensor) -> Tensor:
        """[B, S], [B, S] → [L, B, S, C]"""
        x = _embed(self.embedding, input_ids, torch.arange(input_ids.shape[1])[None])
        memory = self.encoder.encode(x, source_mask != 0)
        return torch.stack([_cross(layer).key_value(memory.values) for layer in self.decoder.layers])


class DecoderGraph(nn.Module):
    """The next target tokens and the cache of those before → logits after each token, and the cache with them"""

    def __init__(self, model: EncoderDecoder | DecoderOnly, n_positions: int) -> None:
        super().__init__()
        assert isinstance(model.decoder, StackDecoder)
        self.decoder: StackDecoder = model.decoder
        self.embedding: Embedding = _with_positions(model.decoder.embedding, n_positions)
        self.readout: nn.Module = model.readout
        self.output: nn.Module = model.output

    def forward(
        self, input_ids: Tensor, cache: Tensor, source: Tensor | None = None, source_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """[B, T], [L, B, P, C], [L, B, S, C], [B, S] → [B, T, V], [L, B, P + T, C]"""
        n_past, n = cache.shape[2], input_ids.shape[1]
        positions = torch.arange(n_past, n_past + n).expand(input_ids.shape)
        ancestors = torch.zeros(input_ids.shape[0], 1, n_past + n, dtype=torch.int64)
        places = GrowingPlaces(positions, ancestors, n_past + n)
        x, caches = _embed(self.embedding, input_ids, positions), []
        for i, layer in enumerate(self.decoder.layers):
            assert isinstance(layer, DecoderLayer)
            attended = None
            if source is not None and source_mask is not None:
                attended = Source(_split(source[i], _cross(layer)), source_mask[:, None, None, :] != 0)
            x, past = layer.step(x, GrowingCache(cache[i][:, :, None]), attended, places)
            caches.append(past.entries[:, :, 0])
        return self.output(self.readout(self.decoder.norm(x))), torch.stack(caches)


def _with_positions(embedding: Embedding, n: int) -> Embedding:
    """Return the embedding with a table of n sinusoidal positions; a graph cannot compute those past its table."""
    if not isinstance(embedding.positions, SinusoidalPositions):
        return embedding
    positions = SinusoidalPositions(embedding.positions.d_model, n)
    return Embedding(embedding.tokens, positions, embedding.join, 0.0, embedding.scale != 1.0, embedding.norm)


def _embed(embedding: Embedding, ids: Tensor, positions: Tensor) -> Tensor:
    """Embed ids at positions that are in the table."""
    return embedding.at(ids, positions, end=0)


def _cross(layer: nn.Module) -> MultiHeadAttention:
    """Return the cross-attention of a decoder layer that has one."""
    assert isinstance(layer, DecoderLayer) and layer.cross is not None
    return layer.cross


def _split(entries: Tensor, attention: MultiHeadAttention) -> KeyValue:
    """[B, S, C] → keys [B, H, S, K] and values [B, H, S, V]"""
    parts = entries.split([attention.n_kv_heads * width for width in attention.widths], dim=-1)
    return KeyValue(*(part.unflatten(-1, (attention.n_kv_heads, -1)).transpose(1, 2) for part in parts))
