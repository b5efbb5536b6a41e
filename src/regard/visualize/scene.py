"""What a model says of a text or a picture, and where it looked while it said so."""

from dataclasses import dataclass
from pathlib import Path

from regard.data.images import ImageArray, load_image
from regard.errors import UserError
from regard.models.record import AttentionRecord
from regard.pipelines.captioner import Captioner
from regard.pipelines.classifier import Classifier
from regard.pipelines.generator import Generator
from regard.pipelines.load import Pipeline
from regard.pipelines.translator import Translator
from regard.text.clean import clean
from regard.visualize.regions import caption_record
from regard.visualize.watch import watch

_SHOWN = 160  # pixels of a picture's side, as it is shown


@dataclass(frozen=True)
class AttendResult:
    given: str
    said: str
    record: AttentionRecord
    picture: ImageArray | None = None
    """The part that a captioner sees"""


def scene_of(model: Pipeline, given: str, target: str | None = None, rank: int = 1) -> AttendResult:
    """The model at work on a text, or a captioner on the picture of that path.

    `target` is what it is made to say, `rank` which of the best of its beam is looked at.
    """
    if not given.strip():
        raise UserError("there is nothing to look at in an empty sentence")
    if rank > 1 and (target is not None or not isinstance(model, Translator)):
        raise UserError("--rank acts on what a translator finds itself; leave it out")
    match model:
        case Captioner():
            return _captioned(model, given, target)
        case Translator() if target is None:
            return _translated(model, given, rank)
        case Classifier() if model.model.label:
            return AttendResult(given, model.classify([given])[0].label, watch(model, given, target))
    return AttendResult(given, given if target is None else target, watch(model, given, target))


def source_tokens(model: Pipeline, given: str) -> list[str]:
    """What the model will read; a captioner reads regions"""
    match model:
        case Captioner():
            return []
        case Generator():
            [ids] = model.tokenizer.encode([given])
            return model.tokenizer.tokens(ids)
    [ids] = model.tokenizers.src.encode([clean(given)])
    return model.tokenizers.src.tokens(ids)


def _captioned(captioner: Captioner, path: str, target: str | None) -> AttendResult:
    if target is None:
        [caption] = captioner.caption([path], attention=True)
        assert caption.regions is not None
        said, tokens, regions = caption.text, list(caption.tokens), caption.regions
    else:
        said, (tokens, regions) = target, captioner.attention(path, target)
    return AttendResult(Path(path).name, said, caption_record(tokens, regions), load_image(Path(path), _SHOWN))


def _translated(translator: Translator, text: str, rank: int) -> AttendResult:
    beam = max(translator.config.beam, rank)
    [translation] = translator.translate([text], attention=True, beam=beam, n_best=rank)
    if len(translation.hypotheses) < rank:
        raise UserError(f"--rank {rank}: the beam found {len(translation.hypotheses)} translations; choose one of them")
    chosen = translation.hypotheses[rank - 1]
    if chosen.attention is None:
        raise UserError("there is nothing to look at in an empty sentence")
    return AttendResult(text, chosen.text, chosen.attention)
