"""A trained model and a sentence, used instead of the lecture's numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from textwrap import shorten
from typing import Any

import torch
from torch import Tensor, nn

from regard.config import read_yaml
from regard.data.batch import Batch
from regard.errors import UserError
from regard.models.decoder_only import DecoderOnly
from regard.models.protocols import AttentionModule, AttentionTraces
from regard.models.record import AttentionRecord, HeadRecord
from regard.nn.attention import AttentionTrace, MultiHeadAttention
from regard.pipelines.base import Pipeline
from regard.pipelines.encoded_input import EncodedInput
from regard.pipelines.load import load
from regard.text.labels import token_labels
from regard.text.tokenizer import Tokenizer
from regard.text.vocab import BOS, EOS, SEP, SPECIALS
from regard.train.recipe import Recipe

_TITLE_WIDTH = 60  # characters of the text in a title


@dataclass(frozen=True)
class ModelInput:
    """The model, the text, and the layer and head to explain."""

    folder: Path
    pipeline: Pipeline
    text: str | None = None
    kind: str | None = None
    """Kind of attention; None: the pipeline's default"""
    layer: int = 0
    head: int = 0
    target: str | None = None
    """The reference that the model is forced to generate; None: its own output"""
    step: int = 0
    """The step of decoding"""

    @classmethod
    def load(
        cls,
        folder: Path,
        text: str | None,
        kind: str | None,
        layer: int,
        head: int,
        target: str | None = None,
        step: int = 0,
    ) -> "ModelInput":
        pipeline = load(folder, device="cpu")
        if pipeline.noun == "captioner":
            raise UserError(f"{folder}: this model reads images; explain takes a model that reads text")
        return cls(folder, pipeline, text, kind, layer, head, target, step)

    @property
    def short_text(self) -> str:
        """The text for a title: one line, shortened if it is long"""
        return shorten(self.text or "", _TITLE_WIDTH, placeholder=" …")

    @property
    def model(self) -> Any:
        return self.pipeline.model

    @property
    def recipe(self) -> Recipe:
        """The recipe that the model was trained with"""
        path = self.folder / "config.yaml"
        if not path.is_file():
            raise UserError(f"{path}: not found; this topic needs a directory written by `regard train`")
        return Recipe.parse(read_yaml(path), where=str(path))

    @cached_property
    def encoded(self) -> EncodedInput:
        if not (self.text or "").strip():
            raise UserError('give the sentence that the model is to process: --text "…"')
        n_tokens, limit = len(self.pipeline.input_tokens(self.text or "")), self.pipeline.max_input_tokens
        if limit is not None and n_tokens > limit:
            raise UserError(f"--text has {n_tokens} tokens, but this model reads {limit} at once; give a shorter text")
        return self.pipeline.encode(self.text or "")

    @property
    def input_ids(self) -> list[int]:
        """Ids of the text"""
        return list(self.encoded.src_ids or self.encoded.prefix)

    @property
    def input_labels(self) -> tuple[str, ...]:
        """Labels of the tokens of the text"""
        return unique_labels(self.pipeline.src_tokenizer.tokens(self.input_ids))

    @cached_property
    def target_ids(self) -> list[int]:
        """Ids of the reference or of the output, with EOS if the model generates one; of a language model, the text"""
        return self.pipeline.target_ids(self.encoded, self.target)

    @property
    def output_ids(self) -> list[int]:
        """Ids of the output without EOS"""
        return [i for i in self.target_ids if i != EOS]

    @property
    def output_text(self) -> str:
        return self.pipeline.tgt_tokenizer.decode(self.output_ids)

    def output_label(self, token: int) -> str:
        """Return the label of a token of the output vocabulary."""
        if token < len(SPECIALS):
            return SPECIALS[token]
        return token_labels(self.pipeline.tgt_tokenizer.tokens([token]))[0]

    @property
    def target_labels(self) -> tuple[str, ...]:
        """Labels of the tokens of the output"""
        return unique_labels(_token_names(self.batch.tgt_out, self.pipeline.tgt_tokenizer))

    @property
    def read_labels(self) -> tuple[str, ...]:
        """Labels of the tokens that the decoder reads: BOS and all of the output but the last"""
        return unique_labels(_token_names(self.batch.tgt_in, self.pipeline.tgt_tokenizer))

    @cached_property
    def batch(self) -> Batch:
        """Source and target as the model sees them in training"""
        return self.encoded.batch(self.target_ids)

    @cached_property
    def traced_batch(self) -> Batch:
        """Like `batch`; for a decoder-only translator, source and target as one sequence"""
        if not isinstance(self.model, DecoderOnly) or not self.encoded.src_ids:
            return self.batch
        sequence = torch.tensor([[*self.input_ids, SEP, BOS, *self.target_ids]])
        return Batch.of(self.encoded.src[:, :0], sequence)

    @cached_property
    @torch.no_grad()
    def traces(self) -> AttentionTraces:
        traces: AttentionTraces = self.model.trace_attention(self.traced_batch)
        return traces

    @cached_property
    def record(self) -> AttentionRecord:
        batch, pipeline = self.traced_batch, self.pipeline
        source = _token_names(batch.src, pipeline.src_tokenizer)
        target, read = (_token_names(ids, pipeline.tgt_tokenizer) for ids in (batch.tgt_out, batch.tgt_in))
        return replace(AttentionRecord.from_traces(self.traces, source, target), read_tokens=read)

    def head_record(self, default: str | None = None) -> HeadRecord:
        """Return the chosen head; `default` is the kind of attention if none was chosen."""
        usual = "decoder" if isinstance(self.model, DecoderOnly) else self.pipeline.attention_kind
        return HeadRecord.from_traces(self.traces, self.record, self.kind or default or usual, self.layer, self.head)

    def attention_module(self, kind: str) -> AttentionModule:
        """Return the attention of that kind in the chosen layer."""
        self.record.weights(kind)  # refuses an unknown kind
        modules: list[AttentionModule] = self.model.attention_modules(kind)
        if not modules:
            raise UserError(f"this model has no {kind} attention")
        if self.layer >= len(modules):
            raise UserError(f"there is no layer {self.layer}; this model has 0 to {len(modules) - 1}")
        return modules[self.layer]

    def multi_head_attention(self, kind: str) -> MultiHeadAttention:
        """Return the attention of that kind in the chosen layer; refuse one without heads."""
        module = self.attention_module(kind)
        if not isinstance(module, MultiHeadAttention):
            raise UserError(f"the {kind} attention of this model has no heads")
        return module

    def trace(self, kind: str) -> AttentionTrace:
        """Return the trace [1, H, …] of the attention of that kind in the chosen layer."""
        trace: AttentionTrace = getattr(self.traces, kind)[self.layer]
        return trace

    @property
    def text_reader(self) -> Any:
        """The part of the model that reads the text: the encoder, or the decoder if there is no encoder"""
        return getattr(self.model, "encoder", None) or self.model.decoder

    @property
    def embeddings(self) -> Tensor:
        """Embeddings of the tokens of the text [tokens, D]"""
        part = self.text_reader
        table: nn.Embedding = getattr(part, "embedding", part).tokens
        return table.weight.detach()[torch.tensor(self.input_ids)].double()


def _token_names(ids: Tensor, tokenizer: Tokenizer) -> tuple[str, ...]:
    """Tokens of ids [1, T]"""
    row = ids[0].tolist()
    return tuple(SPECIALS[i] if i < len(SPECIALS) else t for i, t in zip(row, tokenizer.tokens(row), strict=True))


def unique_labels(tokens: Sequence[str]) -> tuple[str, ...]:
    """Return labels of tokens; those that occur more than once are numbered."""
    labels = token_labels(tokens)
    repeated = {label for label in labels if labels.count(label) > 1}
    return tuple(f"{label}·{i}" if label in repeated else label for i, label in enumerate(labels, start=1))
