"""Loads a model directory as the pipeline for its task."""

from pathlib import Path
from typing import TypeVar

import torch

from regard.bundle import Bundle
from regard.errors import UserError
from regard.models import GenerativeModel
from regard.models.encoder_only import EncoderOnly
from regard.pipelines.arguments import check_folder
from regard.pipelines.base import Pipeline, device_named
from regard.pipelines.captioner import Captioner
from regard.pipelines.classifier import Classifier
from regard.pipelines.engine import CTRANSLATE2, TORCH, EngineChoice
from regard.pipelines.generator import Generator
from regard.pipelines.translator import Translator
from regard.search.ensemble import Ensemble

PipelineT = TypeVar("PipelineT", bound=Pipeline)


def load(
    folder: str | Path, *more: str | Path, device: str | None = None, engine: str = TORCH
) -> Translator | Generator | Classifier | Captioner:
    """Load a model directory that `regard train` wrote: a Translator, Generator, Classifier or Captioner.

    Several directories of translators become an ensemble. `engine` is what runs the search of a translator: "torch",
    "ctranslate2", "ctranslate2:int8", or "auto" for CTranslate2 where it can be used.

    >>> translator = regard.load(translator_dir, device="cpu")
    >>> translator.noun
    'translator'
    >>> regard.load(translator_dir, translator_dir).translate(["a b"])[0].text == translator.translate(["a b"])[0].text
    True
    """
    folders = [check_folder(path) for path in (folder, *more)]
    bundles = [Bundle.load(path) for path in folders]
    if not more:
        return pipeline_from_bundle(bundles[0], device, EngineChoice.parse(engine), folders[0])
    if EngineChoice.parse(engine).name == CTRANSLATE2:
        raise UserError("--engine ctranslate2: it decodes with one model, not with an ensemble; leave --engine out")
    return _ensemble(folders, bundles, device)


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


def load_as(
    kind: type[PipelineT], folder: str | Path, *more: str | Path, device: str | None = None, engine: str = TORCH
) -> PipelineT:
    """Like `load`, but refuse a pipeline of another kind."""
    pipeline: Pipeline = load(folder, *more, device=device, engine=engine)
    if not isinstance(pipeline, kind):
        hint = f"train one with --recipe {kind.example_recipe}"
        raise UserError(f"{folder}: not a {kind.noun} but a {pipeline.noun}; {hint}")
    return pipeline


def load_translator(
    folder: str | Path, *more: str | Path, device: str | None = None, engine: str = TORCH
) -> Translator:
    """Like `load`, but refuse anything that is not a translator."""
    return load_as(Translator, folder, *more, device=device, engine=engine)


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
        members.append(bundle.model.to(torch_device))
    return _translator(Ensemble(members), first, torch_device)


def _translator(model: GenerativeModel | Ensemble[GenerativeModel], bundle: Bundle, device: torch.device) -> Translator:
    """Make a translator with the tokenizers and settings of a bundle."""
    return Translator(model, bundle.tokenizers, bundle.decode, device, bundle.alignment, bundle.words, bundle.languages)
