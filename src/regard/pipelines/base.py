"""What all pipelines have in common: the interface that visualisation, explanation and the server build on."""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

import torch

from regard.data.images import ImageArray
from regard.errors import UserError
from regard.models import GenerativeModel, Model
from regard.models.encoder_only import EncoderOnly
from regard.models.inference import inference_copy
from regard.models.intervention import ChangedModel, HeadIndex, Intervention
from regard.models.lens import lens_rows
from regard.models.patch import combine, patch_from
from regard.models.protocols import AttentionTraces
from regard.models.record import KINDS, AttentionRecord, HeadRecord
from regard.pipelines.arguments import check_text
from regard.pipelines.encoded_input import EncodedInput, Input
from regard.pipelines.length_limit import LengthLimit
from regard.pipelines.lens import LogitLens
from regard.pipelines.predictions import scored_tokens
from regard.pipelines.what_if import Patch, PatchActivations, WhatIf
from regard.search.decode import DecodeConfig, decode
from regard.search.ensemble import Ensemble
from regard.search.protocols import Hypothesis
from regard.text.clean import clean
from regard.text.tokenizer import Tokenizer, TokenizerPair
from regard.text.vocab import BOS, EOS, PAD, SPECIALS
from regard.threads import limit_threads

if hasattr(os, "register_at_fork"):
    # A forked child would wait for ever for OpenMP threads that only its parent has; with one thread it needs none.
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))


@dataclass(frozen=True)
class ImageSize:
    """The images that a captioner reads: pixels and regions per side"""

    pixels: int
    regions: int


@dataclass(frozen=True)
class AttentionSite:
    """Where a model has attention: how many layers and heads of one kind, and whether it sees earlier tokens only"""

    layers: int
    heads: int
    causal: bool


class Pipeline:
    """A trained model with its tokenizers. Holds no state between calls."""

    noun: ClassVar[str]
    """What it is called in messages: translator, generator, classifier or captioner"""
    generates: ClassVar[bool] = True
    """Whether it generates an output token by token"""
    attention_kind: ClassVar[str] = "cross"
    """The kind of attention to show if none is chosen"""
    example_recipe: ClassVar[str]
    """A recipe that trains such a model"""

    model: Model | Ensemble[GenerativeModel]
    src_tokenizer: Tokenizer
    tgt_tokenizer: Tokenizer

    def __init__(
        self,
        model: Model | Ensemble[GenerativeModel],
        tokenizers: TokenizerPair,
        decode_config: DecodeConfig,
        device: torch.device,
    ) -> None:
        self.model = model
        self.src_tokenizer = tokenizers.src
        self.tgt_tokenizer = tokenizers.tgt
        self.decode_config = decode_config
        self.device = device
        self._ensemble: Ensemble[GenerativeModel] | None = None
        """The faster copies of an ensemble's members"""

    @property
    def members(self) -> tuple[Model, ...]:
        """The models that decode together: one, or those of an ensemble"""
        return self.model.members if isinstance(self.model, Ensemble) else (self.model,)

    @property
    def traced_model(self) -> Model:
        """The model whose attention is recorded; of an ensemble, its first member"""
        return self.members[0]

    def encode(self, source: Input, hidden: Collection[int] = ()) -> EncodedInput:
        """Tokenise an input. `hidden` are positions of source tokens that the model must not see."""
        [ids] = self.src_tokenizer.encode([self.clean(as_text(source))])
        return self.encode_ids(ids, hidden)

    def encode_ids(self, ids: Sequence[int], hidden: Collection[int] = ()) -> EncodedInput:
        """Like `encode`, for source ids without EOS. Hidden tokens are replaced by padding, which is masked."""
        if hidden and not self.can_hide_tokens:
            raise UserError("tokens can only be hidden from an encoder whose tokens interact by attention")
        shown = [PAD if i in hidden else token for i, token in enumerate(ids)]
        src = torch.tensor([[*shown, EOS]], dtype=torch.int64, device=self.device)
        return EncodedInput(src, tuple(ids), (*self.src_tokenizer.tokens(ids), SPECIALS[EOS]))

    def input_tokens(self, source: Input) -> list[str]:
        """Return all tokens of an input, including those beyond what the model can read; none for an image."""
        [ids] = self.src_tokenizer.encode([self.clean(as_text(source))])
        return self.src_tokenizer.tokens(ids)

    def clean(self, text: str) -> str:
        """Normalise a text as in training."""
        return clean(text)

    def with_tag(self, text: str, to: str | None = None) -> str:
        """Return a text with the tag in front by which the model knows the target language `to`, if it needs one."""
        if to:
            raise UserError(f"a {self.noun} has no target language (to); leave it out")
        return text

    def restore(self, source: str, output: str) -> str:
        """Give the output for a source the case and punctuation that the model did not see. Only translators do."""
        return output

    def encode_target(self, text: str) -> list[int]:
        """Tokenise an output, without special tokens; refuse one that is longer than a source may be."""
        return self.target_limit.encode_one(
            self.clean(check_text("the target", text)), self.tgt_tokenizer, "the target"
        )

    def decode_target(self, ids: Sequence[int]) -> str:
        """Turn output ids into text."""
        return self.clean(self.tgt_tokenizer.decode(ids))

    def target_ids(self, encoded: EncodedInput, target: str | None = None, rank: int = 1) -> list[int]:
        """Return the ids whose generation is recorded: those of `target`, or the model's own output of that rank."""
        if target is None:
            return [*self._decode_ranked(encoded, rank), EOS]
        if rank > 1:
            raise UserError("a rank selects one of the model's own outputs; leave the rank or the target out")
        return [*self.encode_target(target), EOS]

    def output_text(self, source: str, target_ids: Sequence[int]) -> str:
        """Return the output of the model for `source` as text."""
        return self.decode_target(target_ids)

    @property
    def image_size(self) -> ImageSize | None:
        """Size of the images that the model reads; None: it reads text"""
        return None

    def thumbnail(self, source: Input, size: int) -> ImageArray | None:
        """Return an image file as a square image of `size` pixels per side; None for a text."""
        return None

    def record(self, source: Input, target: str | None = None, patch: Patch | None = None) -> AttentionRecord:
        """Record the attention of all layers and heads while the model processes `source`.

        With `target`, the model is forced to generate that output instead of its own. `patch` replaces activations.
        """
        encoded = self.encode(source)
        return self.trace(encoded, self.target_ids(encoded, target), self.intervention(patch=patch))[1]

    def record_head(
        self, source: Input, target: str | None = None, kind: str | None = None, layer: int = 0, head: int = 0
    ) -> HeadRecord:
        """Record one head with its queries, keys, values and scores. `kind` is `attention_kind` by default."""
        encoded = self.encode(source)
        traces, record = self.trace(encoded, self.target_ids(encoded, target))
        return HeadRecord.from_traces(traces, record, kind or self.attention_kind, layer, head)

    @torch.inference_mode()
    def trace(
        self, encoded: EncodedInput, target: Sequence[int], intervention: Intervention | None = None
    ) -> tuple[AttentionTraces, AttentionRecord]:
        """Trace all attention while the model is forced to generate the ids `target`."""
        traces = self.traced_model.trace_attention(encoded.batch(target), intervention)
        target_tokens = tuple(self.tgt_tokenizer.tokens(target))
        return traces, AttentionRecord.from_traces(traces, encoded.src_tokens, target_tokens)

    def lens(
        self,
        source: Input,
        target: str | None = None,
        off: Collection[HeadIndex] = (),
        patch: Patch | None = None,
    ) -> LogitLens:
        """Return what the model would predict after each part of each layer, at every position (the logit lens).

        `target` forces an output as in `record`; `off` and `patch` change the model as in `what_if`. For the decoder,
        and for the encoder of an encoder-only model, see `regard.models.lens`.
        """
        encoded = self.encode(source)
        ids = self.target_ids(encoded, target)
        batch, intervention = encoded.batch(ids), self.intervention(off, patch)
        followed, read = self._predicted(encoded, ids)
        rows = lens_rows(self.traced_model, batch, torch.tensor(followed), 1, intervention)
        tokens = self.tgt_tokenizer.tokens(followed)
        return LogitLens.of(self.tgt_tokenizer, rows, read or tokens, tokens)

    def what_if(self, source: Input, off: Collection[HeadIndex] = (), patch: Patch | None = None) -> WhatIf:
        """Return the output without and with a change, and how likely the output without it is in both cases.

        `off` are heads to switch off, as (kind of attention, layer, head); `patch` replaces activations by those of
        another input. The weights stay as they are.
        """
        encoded, change = self.encode(source), self.intervention(off, patch)
        encoded.check_not_empty()
        greedy = patch is not None and patch.has_decoder_sites
        before, after = self._output(encoded, None, greedy), self._output(encoded, change, greedy)
        batch = encoded.batch(before)
        followed, _ = self._predicted(encoded, before)
        log_probs = [tuple(scored_tokens(self.traced_model, batch, followed, each)[0]) for each in (None, change)]
        tokens = tuple(self.tgt_tokenizer.tokens(followed))
        return WhatIf(self._shown(encoded, before, None), self._shown(encoded, after, change), tokens, *log_probs)

    def intervention(self, off: Collection[HeadIndex] = (), patch: Patch | None = None) -> Intervention | None:
        """Return heads that are off and activations of another input as an argument for the model; None: nothing."""
        masked = Intervention.switch_off(self.traced_model, off)
        return combine(masked, None if patch is None else self.patch_activations(patch).intervention)

    def patch_activations(self, patch: Patch) -> PatchActivations:
        """Run the model on the input of a patch, and take the activations that the patch names."""
        donor = self.encode(patch.source)
        target = self._donor_target(donor, patch)
        intervention = patch_from(self.traced_model, donor.batch(target), patch.sites)
        read = (SPECIALS[BOS], *self.tgt_tokenizer.tokens(target[:-1])) if self.generates else ()
        return PatchActivations(intervention, donor.src_tokens, read, patch.has_decoder_sites)

    def _donor_target(self, donor: EncodedInput, patch: Patch) -> list[int]:
        """Return the ids with which the decoder reads the input of a patch."""
        donor.check_not_empty()
        if patch.target is None and patch.has_decoder_sites:
            return self._output(donor, None, greedy=True)
        return self.target_ids(donor, patch.target)

    @torch.inference_mode()
    def _output(self, encoded: EncodedInput, change: Intervention | None, greedy: bool) -> list[int]:
        """Return the ids that the changed model generates, with EOS; none for a model that generates nothing."""
        model = self.traced_model
        assert not isinstance(model, EncoderOnly)
        beam = 1 if greedy else self.decode_config.beam
        config = self.decode_config.model_copy(update={"beam": beam, "n_best": 1, "sampling": None})
        [hypotheses] = decode(ChangedModel(model, change), encoded.batch(), config)
        return [*check_hypotheses(hypotheses)[0].ids, EOS]

    def _shown(self, encoded: EncodedInput, ids: Sequence[int], change: Intervention | None) -> str:
        """Return the output of the changed model as text."""
        return self.decode_target([token for token in ids if token != EOS])

    def _predicted(self, encoded: EncodedInput, target: Sequence[int]) -> tuple[list[int], list[str]]:
        """Return the token that is predicted at each position, and what is read there."""
        return list(target), [SPECIALS[BOS], *self.tgt_tokenizer.tokens(target[:-1])]

    def attention_sites(self) -> dict[str, AttentionSite]:
        """Return the kinds of attention that the model has."""
        sites = {}
        for kind in KINDS:
            if modules := self.traced_model.attention_modules(kind):
                sites[kind] = AttentionSite(len(modules), modules[0].n_heads, causal=kind == "decoder")
        return sites

    @property
    def can_hide_tokens(self) -> bool:
        """Whether `encode` can hide source tokens from the model"""
        return all(model.can_hide_tokens for model in self.members)

    @property
    def max_input_tokens(self) -> int | None:
        """Most tokens that an input can have; None: no limit"""
        limits = [n for model in self.members if (n := model.max_source_tokens) is not None]
        return min(limits, default=None)

    @property
    def target_limit(self) -> LengthLimit:
        """The limit on outputs that the model is forced to generate: that on sources"""
        return LengthLimit(self.decode_config.max_source, model=None)

    def length_limit(self, max_source: int | None = None) -> LengthLimit:
        """Return the limit on sources; `max_source` takes the place of the model's own option."""
        return LengthLimit(max_source or self.decode_config.max_source, self.max_input_tokens)

    def decoding_model(self, config: DecodeConfig) -> GenerativeModel | Ensemble[GenerativeModel]:
        """Return the model, or a copy of it that decodes faster."""
        members = [inference_copy(member, config.precision) for member in self.members]
        if not isinstance(self.model, Ensemble):
            return cast(GenerativeModel, members[0])
        if self._ensemble is None or self._ensemble.members != tuple(members):
            self._ensemble = Ensemble(cast(list[GenerativeModel], members))
        return self._ensemble

    def _decode_ranked(self, encoded: EncodedInput, rank: int) -> list[int]:
        """Decode with the model's own settings; return the ids of the hypothesis of that rank, 1 = best."""
        assert not isinstance(self.model, EncoderOnly)
        encoded.check_not_empty()
        config = self.decode_config.model_copy(update={"beam": max(self.decode_config.beam, rank), "n_best": rank})
        hypotheses = check_hypotheses(decode(self.decoding_model(config), encoded.batch(), config)[0])
        if len(hypotheses) < rank:
            raise UserError(f"rank {rank}: the search found {len(hypotheses)} outputs; choose a lower rank")
        return list(hypotheses[rank - 1].ids)


def check_hypotheses(hypotheses: Sequence[Hypothesis]) -> Sequence[Hypothesis]:
    """Return the hypotheses of a sentence; if there are none, the model's probabilities are not numbers."""
    if not hypotheses:
        raise UserError("the model returns no probabilities; its weights are damaged, or training diverged")
    return hypotheses


def refuse_target(target: str | None, rank: int) -> None:
    """Refuse to force or select an output, for models that have none to choose."""
    if target is not None or rank > 1:
        raise UserError("a target or a rank is for translators and captioners; leave it out")


def as_text(source: Input) -> str:
    """Return a source that must be a text."""
    if not isinstance(source, str):
        raise UserError(f"this model reads text, not images; got a value of type {type(source).__name__}")
    return source


def device_named(name: str | None) -> torch.device:
    """Return the device of that name, after a check that it works; without a name, a GPU if there is any.

    Limits torch's threads to the cores that it may use.
    """
    limit_threads()
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.ones(1, device=device).tolist()
    except Exception:  # torch raises almost any exception, depending on the name
        raise UserError(f"device {name}: no such device on this machine; choose another, or leave it out") from None
    return device
