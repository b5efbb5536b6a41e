"""A model and a sentence of one's own, on which a topic is worked out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from textwrap import shorten
from typing import Any

import torch
from torch import Tensor, nn

from regard.config import read_yaml
from regard.data.batch import Batch, collate_sources
from regard.errors import UserError
from regard.models.decoder_only import DecoderOnly
from regard.models.inside import head_of, record_of, single
from regard.models.protocols import AttentionTraces
from regard.models.record import AttentionRecord, HeadRecord
from regard.models.stack import StackDecoder, StackEncoder
from regard.nn.attention import MultiHeadAttention
from regard.pipelines.captioner import Captioner
from regard.pipelines.classifier import Classifier
from regard.pipelines.generator import Generator
from regard.pipelines.load import Pipeline, load
from regard.pipelines.translator import Translator
from regard.search.decode import DecodeConfig, decode
from regard.text.clean import clean
from regard.text.labels import token_labels
from regard.text.tokenizer import Tokenizer
from regard.text.vocab import BOS, EOS, SEP, SPECIALS
from regard.train.recipe import Recipe

_LONGEST_TITLE = 60  # characters of the text in it


@dataclass(frozen=True)
class ModelInput:
    folder: Path
    pipeline: Pipeline
    text: str | None = None
    kind: str | None = None
    """Of attention; by default the one that the model is known for"""
    layer: int = 0
    head: int = 0

    @classmethod
    def load(cls, folder: Path, text: str | None, kind: str | None, layer: int, head: int) -> "ModelInput":
        pipeline = load(folder, device="cpu")
        if isinstance(pipeline, Captioner):
            raise UserError(f"{folder}: reads pictures; explain takes a model that reads text")
        return cls(folder, pipeline, text, kind, layer, head)

    @property
    def quoted(self) -> str:
        """The text in a title: one line, and not all of a long one"""
        return shorten(self.text or "", _LONGEST_TITLE, placeholder=" …")

    @property
    def model(self) -> Any:
        return self.pipeline.model

    @property
    def reader(self) -> Tokenizer:
        """The tokenizer of what is given"""
        return self.pipeline.tokenizer if isinstance(self.pipeline, Generator) else self.pipeline.tokenizers.src

    @property
    def recipe(self) -> Recipe:
        """How it was trained"""
        path = self.folder / "config.yaml"
        if not path.is_file():
            raise UserError(f"{path}: not there; only a folder that `regard train` wrote tells how it was trained")
        return Recipe.parse(read_yaml(path), where=str(path))

    @cached_property
    def given(self) -> list[int]:
        """The ids of the text"""
        if not (self.text or "").strip():
            raise UserError('give the sentence that the model is to work on: --text "…"')
        text = self.text or ""
        [ids] = self.reader.encode([text if isinstance(self.pipeline, Generator) else clean(text)])
        longest = self.pipeline.context if isinstance(self.pipeline, Generator) else self.model.max_len
        if longest is not None and len(ids) >= longest:
            raise UserError(
                f"--text has {len(ids)} tokens; this model reads {longest - 1} at once, so give a shorter one"
            )
        return ids

    @cached_property
    def said(self) -> list[int]:
        """What the model makes of it, as ids; a language model is made to say the text itself"""
        if isinstance(self.pipeline, Generator):
            return self.given
        if isinstance(self.pipeline, Classifier):
            return []
        return list(decode(self.model, self.asked, self.decoding)[0][0].ids)

    @property
    def decoding(self) -> DecodeConfig:
        return self.pipeline.config if isinstance(self.pipeline, Translator) else DecodeConfig()

    @property
    def asked(self) -> Batch:
        """The text as search takes it"""
        return collate_sources([self.given])

    @cached_property
    def batch(self) -> Batch:
        """Source and target as the model sees them in training"""
        if isinstance(self.pipeline, Generator):
            return single((), [BOS, *self.said], torch.device("cpu"))
        target = [BOS] if isinstance(self.pipeline, Classifier) else [BOS, *self.said, EOS]
        return single([*self.given, EOS], target, torch.device("cpu"))

    @property
    def target_tokens(self) -> tuple[str, ...]:
        return self._named(self.batch.tgt_out, self.writer)

    @property
    def writer(self) -> Tokenizer:
        """The tokenizer of what is said"""
        return self.pipeline.tokenizer if isinstance(self.pipeline, Generator) else self.pipeline.tokenizers.tgt

    @cached_property
    def seen(self) -> Batch:
        """What is looked at: where a translator has source and target in one sequence, that one"""
        if not isinstance(self.model, DecoderOnly) or not isinstance(self.pipeline, Translator):
            return self.batch
        return single((), [*self.given, SEP, BOS, *self.said, EOS], torch.device("cpu"))

    @cached_property
    @torch.no_grad()
    def traces(self) -> AttentionTraces:
        found: AttentionTraces = self.model.attention(self.seen)
        return found

    @cached_property
    def record(self) -> AttentionRecord:
        source, target, read = (
            self._named(ids, tokenizer)
            for ids, tokenizer in (
                (self.seen.src, self.reader),
                (self.seen.tgt_out, self.writer),
                (self.seen.tgt_in, self.writer),
            )
        )
        return replace(record_of(self.traces, source, target), read_tokens=read)

    def inside(self, default: str | None = None) -> HeadRecord:
        """The head that was asked for at work on the sentence"""
        kinds = {Generator: "decoder", Classifier: "encoder", Translator: "cross"}
        usual = "decoder" if isinstance(self.model, DecoderOnly) else kinds[type(self.pipeline)]
        return head_of(self.traces, self.record, self.kind or default or usual, self.layer, self.head)

    def module(self, kind: str) -> MultiHeadAttention:
        """The attention of that kind in the layer that was asked for"""
        self.record.weights(kind)  # an unknown kind is refused
        part = getattr(self.model, "encoder" if kind == "encoder" else "decoder", None)
        layers: list[Any] = list(part.layers) if isinstance(part, StackEncoder | StackDecoder) else []
        found = [layer.cross if kind == "cross" else layer.mixer for layer in layers]
        heads = [module for module in found if isinstance(module, MultiHeadAttention)]
        if not heads:
            raise UserError(f"this model has no {kind} attention with heads to look at")
        if self.layer >= len(heads):
            raise UserError(f"there is no layer {self.layer}; this model has 0 to {len(heads) - 1}")
        return heads[self.layer]

    @property
    def first_part(self) -> Any:
        """What reads the text: the encoder, or the decoder where there is no other"""
        return getattr(self.model, "encoder", None) or self.model.decoder

    @property
    def vectors(self) -> Tensor:
        """The token embeddings of the text, [tokens, D]"""
        part = self.first_part
        table: nn.Embedding = getattr(part, "embedding", part).tokens
        return table.weight.detach()[torch.tensor(self.given)].double()

    @property
    def given_tokens(self) -> tuple[str, ...]:
        return tuple(token_labels(self.reader.tokens(self.given)))

    def _named(self, ids: Tensor, tokenizer: Tokenizer) -> tuple[str, ...]:
        """Tokens of ids [1, T]"""
        row = ids[0].tolist()
        return tuple(SPECIALS[i] if i < len(SPECIALS) else t for i, t in zip(row, tokenizer.tokens(row), strict=True))


def names(tokens: Sequence[str]) -> tuple[str, ...]:
    """Tokens as people read them, numbered where one occurs twice"""
    shown = token_labels(tokens)
    twice = {token for token in shown if shown.count(token) > 1}
    return tuple(f"{token}·{i}" if token in twice else token for i, token in enumerate(shown, start=1))
