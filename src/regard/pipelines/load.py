"""Loads a model directory as the pipeline for its task."""

from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch

from regard.bundle import NO_LANGUAGES, Bundle
from regard.errors import UserError
from regard.models import GenerativeModel
from regard.models.encoder_only import EncoderOnly
from regard.pipelines.arguments import check_folder
from regard.pipelines.base import Pipeline, device_named
from regard.pipelines.captioner import Captioner
from regard.pipelines.classifier import Classifier
from regard.pipelines.engine import CTRANSLATE2, TORCH, EngineChoice
from regard.pipelines.generator import Generator
from regard.pipelines.reranker import Reranker
from regard.pipelines.translator import Translator
from regard.search.ensemble import Ensemble
from regard.text.language_codes import same_language
from regard.text.tokenizer import TokenizerPair

PipelineT = TypeVar("PipelineT", bound=Pipeline)


def load(
    folder: str | Path,
    *more: str | Path,
    device: str | None = None,
    engine: str = TORCH,
    draft: str | Path | None = None,
    rerank: str | Path | None = None,
) -> Translator | Generator | Classifier | Captioner:
    """Load a model directory that `regard train` wrote: a Translator, Generator, Classifier or Captioner.

    Several directories of translators become an ensemble. `engine` is what runs the search of a translator: "torch",
    "ctranslate2", "ctranslate2:int8", or "auto" for CTranslate2 where it can be used. `draft` is a smaller translator
    with the same tokenizer, which makes greedy search faster (see `search/speculative.py`). `rerank` translates in the
    other direction, and ranks the translations of a beam (see `pipelines/reranker.py`).

    >>> translator = regard.load(translator_dir, device="cpu")
    >>> translator.noun
    'translator'
    >>> regard.load(translator_dir, translator_dir).translate(["a b"])[0].text == translator.translate(["a b"])[0].text
    True
    """
    folders = [check_folder(path) for path in (folder, *more)]
    choice = EngineChoice.parse(engine)
    if choice.name == CTRANSLATE2 and (more or draft is not None):
        what = "an ensemble" if more else "a draft"
        raise UserError(f"--engine ctranslate2: it decodes with one model, not with {what}; leave --engine out")
    bundles = [Bundle.load(path) for path in folders]
    if more:
        pipeline: Translator | Generator | Classifier | Captioner = _ensemble(folders, bundles, device)
    else:
        pipeline = pipeline_from_bundle(bundles[0], device, None if draft is not None else choice, folders[0])
    for helper, use in ((draft, _use_draft), (rerank, _use_reverse)):
        if helper is not None:
            if not isinstance(pipeline, Translator):
                raise UserError(f"{folder}: not a translator but a {pipeline.noun}; leave {helper} out")
            use(pipeline, check_folder(helper), device)
    return pipeline


def _use_draft(translator: Translator, folder: Path, device: str | None) -> None:
    """Let a translator decode with the tokens that the model of a directory proposes."""
    bundle = Bundle.load(folder)
    if bundle.task != "translate" or isinstance(bundle.model, EncoderOnly):
        raise UserError(f"{folder}: not a translator; a draft model is one")
    own = TokenizerPair(translator.src_tokenizer, translator.tgt_tokenizer)
    if bundle.tokenizers.fingerprint != own.fingerprint:
        raise UserError(f"{folder}: its tokenizer differs from that of the model; a draft model needs the same one")
    translator.use_draft(bundle.model.to(translator.device))


def _use_reverse(translator: Translator, folder: Path, device: str | None) -> None:
    """Let a translator rank its translations by the model of a directory that translates in the other direction."""
    reranker = Reranker(load_translator(folder, device=device))
    if not any(reranker.reverses(direction) for direction in translator.directions):
        what = reranker.reverse.directions.title
        other = " → ".join(reversed(translator.directions.first.languages))
        raise UserError(f"{folder}: translates {what}, not {other}; give a model of the other direction")
    translator.reranker = reranker


def pipeline_from_bundle(
    bundle: Bundle, device: str | None = None, engine: EngineChoice | None = None, folder: Path | None = None
) -> Translator | Generator | Classifier | Captioner:
    """Make the pipeline for the task of a bundle; an engine other than PyTorch needs the bundle's folder."""
    pipeline = _pipeline(bundle, device)
    if engine is not None and folder is not None:
        made = engine.make(folder, bundle, pipeline.device)
        if isinstance(pipeline, Translator):
            pipeline.engine = made
    return pipeline


def _pipeline(bundle: Bundle, device: str | None) -> Translator | Generator | Classifier | Captioner:
    torch_device = device_named(device)
    model = bundle.model.to(torch_device)
    match bundle.task:
        case "text":
            return Generator(model, bundle.tokenizers, bundle.context, torch_device)
        case "masked" | "classify":
            return Classifier(model, bundle.tokenizers, torch_device)
        case "caption":
            return Captioner(model, bundle.tokenizers, bundle.decode, torch_device)
    if isinstance(model, EncoderOnly):
        raise UserError("an encoder-only model cannot translate; the model directory is damaged")
    return _translator(model, bundle, torch_device)


def load_as(kind: type[PipelineT], folder: str | Path, *more: str | Path, **options: Any) -> PipelineT:
    """Like `load`, with its options, but refuse a pipeline of another kind."""
    pipeline: Pipeline = load(folder, *more, **options)
    if not isinstance(pipeline, kind):
        hint = f"train one with --recipe {kind.example_recipe}"
        raise UserError(f"{folder}: not a {kind.noun} but a {pipeline.noun}; {hint}")
    return pipeline


def load_translator(folder: str | Path, *more: str | Path, **options: Any) -> Translator:
    """Like `load`, with its options, but refuse anything that is not a translator."""
    return load_as(Translator, folder, *more, **options)


def _ensemble(folders: list[Path], bundles: list[Bundle], device: str | None) -> Translator:
    torch_device, first = device_named(device), bundles[0]
    members = []
    for path, bundle in zip(folders, bundles, strict=True):
        if bundle.task != "translate" or isinstance(bundle.model, EncoderOnly):
            raise UserError(f"{path}: not a translator; an ensemble consists of translators")
        if bundle.tokenizers.fingerprint != first.tokenizers.fingerprint:
            raise UserError(
                f"{path}: its tokenizer differs from that of {folders[0]}; an ensemble needs one vocabulary"
            )
        if not _share_target(bundle, first):
            what, target = bundle.all_directions.title, first.all_directions.first.target
            raise UserError(f"{path}: translates {what}; the first model of the ensemble translates to {target}")
        members.append(bundle.model.to(torch_device))
    reads_terms = all(bundle.reads_terms for bundle in bundles)
    return _translator(Ensemble(members), replace(first, reads_terms=reads_terms), torch_device)


def _share_target(one: Bundle, other: Bundle) -> bool:
    """Return whether two models have a target language in common, as far as their languages are known."""
    return any(
        NO_LANGUAGES in (left.languages, right.languages) or same_language(left.target, right.target)
        for left in one.all_directions
        for right in other.all_directions
    )


def _translator(model: GenerativeModel | Ensemble[GenerativeModel], bundle: Bundle, device: torch.device) -> Translator:
    """Make a translator with the tokenizers and settings of a bundle."""
    return Translator(
        model,
        bundle.tokenizers,
        bundle.decode,
        device,
        bundle.alignment,
        bundle.words,
        bundle.all_directions,
        reads_terms=bundle.reads_terms,
    )
