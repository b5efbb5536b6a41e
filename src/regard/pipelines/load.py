"""A model directory → the front door that its task has."""

from pathlib import Path

from regard.bundle import Bundle
from regard.errors import UserError
from regard.models import Model
from regard.models.encoder_only import EncoderOnly
from regard.pipelines.captioner import Captioner
from regard.pipelines.classifier import Classifier
from regard.pipelines.generator import Generator
from regard.pipelines.translator import Translator, device_named
from regard.search.protocols import Ensemble, Stepper

Pipeline = Translator | Generator | Classifier | Captioner


def load(folder: str | Path, *more: str | Path, device: str | None = None) -> Pipeline:
    """The model directory that `regard train` wrote → Translator, Writer, Classifier or Captioner.

    Several directories of translators vote as an ensemble.
    """
    bundle = Bundle.load(folder)
    if more:
        return _ensemble([folder, *more], [bundle, *(Bundle.load(f) for f in more)], device)
    return pipeline_from_bundle(bundle, device)


def pipeline_from_bundle(bundle: Bundle, device: str | None = None) -> Pipeline:
    place = device_named(device)
    model = bundle.model.to(place)
    match bundle.task:
        case "text":
            return Generator(model, bundle.tokenizers, bundle.context, place)
        case "masked" | "classify":
            return Classifier(model, bundle.tokenizers, place)
        case "caption":
            return Captioner(model, bundle.tokenizers, bundle.decode, place)
    return Translator(_stepper(model), bundle.tokenizers, bundle.decode, place, bundle.alignment)


def load_translator(folder: str | Path, *more: str | Path, device: str | None = None) -> Translator:
    loaded = load(folder, *more, device=device)
    if not isinstance(loaded, Translator):
        raise UserError(f"{folder}: is no translator; it is a {type(loaded).__name__.lower()}")
    return loaded


def _ensemble(folders: list[str | Path], bundles: list[Bundle], device: str | None) -> Translator:
    place, first = device_named(device), bundles[0]
    for path, bundle in zip(folders, bundles, strict=True):
        if bundle.task != "translate":
            raise UserError(f"{path}: is no translator; an ensemble is made of translators")
        if bundle.tokenizers.fingerprint != first.tokenizers.fingerprint:
            raise UserError(
                f"{path}: its tokenizer differs from that of {folders[0]}; an ensemble needs one vocabulary"
            )
    members: list[Stepper] = [_stepper(bundle.model.to(place)) for bundle in bundles]
    return Translator(Ensemble(members), first.tokenizers, first.decode, place, first.alignment)


def _stepper(model: Model) -> Stepper:
    if isinstance(model, EncoderOnly):
        raise UserError("an encoder alone does not translate; the model directory is damaged")
    return model
