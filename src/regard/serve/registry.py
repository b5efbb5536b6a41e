"""The models of a server, by name. Requests name a model; a name never becomes a path."""

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar, cast

from regard.bundle import Bundle
from regard.errors import UserError
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.encoder_only import EncoderOnly
from regard.models.rnn import RnnDecoder
from regard.pipelines.base import Pipeline
from regard.pipelines.engine import TORCH, EngineChoice
from regard.pipelines.load import load, pipeline_from_bundle
from regard.pipelines.translator import Translator

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
ServedT = TypeVar("ServedT", bound=Pipeline, covariant=True)
OtherT = TypeVar("OtherT", bound=Pipeline)


@dataclass(frozen=True)
class ServedModel(Generic[ServedT]):
    """A pipeline with the name under which it is served."""

    name: str
    pipeline: ServedT
    languages: tuple[str, str]
    n_parameters: int
    examples: tuple[str, ...] = ()

    def narrow(self, kind: type[OtherT]) -> "ServedModel[OtherT] | None":
        """Return this model typed as a pipeline of that class; None if it is another."""
        return cast("ServedModel[OtherT]", self) if isinstance(self.pipeline, kind) else None

    @property
    def targets(self) -> list[str]:
        """The target languages, if there are several"""
        translator = self.narrow(Translator)
        targets = [] if translator is None else translator.pipeline.directions.targets
        return targets if len(targets) > 1 else []

    @property
    def names(self) -> list[str]:
        """The names under which OpenAI's clients find the model: its own and, for each target language, NAME:fr"""
        return [self.name, *(f"{self.name}:{target}" for target in self.targets)]

    @property
    def architecture(self) -> str:
        """rnn, encdec, decoder, encoder or caption"""
        if self.pipeline.image_size is not None:
            return "caption"
        match self.pipeline.traced_model:
            case EncoderOnly():
                return "encoder"
            case DecoderOnly():
                return "decoder"
            case EncoderDecoder(decoder=decoder):
                return "rnn" if isinstance(decoder, RnnDecoder) else "encdec"


class Registry:
    def __init__(self, models: Sequence[ServedModel[Pipeline]]) -> None:
        self.models = {model.name: model for model in models}
        self.opened = int(time.time())
        """When the models were loaded: seconds since 1970"""

    @classmethod
    def open(cls, folders: Sequence[Path], device: str | None = None, engine: str = TORCH) -> "Registry":
        """Load model directories. Each model has the name of its directory; `NAME=DIR` gives it another.

        `NAME=DIR1+DIR2` is an ensemble of translators.
        """
        models: dict[str, ServedModel[Pipeline]] = {}
        for folder in folders:
            name, separator, path = str(folder).partition("=")
            if not separator or folder.is_dir():  # the name of a directory may contain "="
                name, path = folder.resolve().name, str(folder)
            name = name.lower()
            if not _NAME.fullmatch(name):
                raise UserError(f"'{name}' cannot name a model; write name={path} with letters, digits, dot, dash")
            if name in models:
                raise UserError(f"two models are named '{name}'; write name=DIR to give one another name")
            models[name] = _load(name, path, device, engine)
        return cls(list(models.values()))

    def __iter__(self) -> Iterator[ServedModel[Pipeline]]:
        return iter(self.models.values())

    def of_kind(self, kind: type[OtherT]) -> list[ServedModel[OtherT]]:
        """Return the models whose pipelines are of that class."""
        return [narrowed for model in self if (narrowed := model.narrow(kind)) is not None]


def _load(name: str, path: str, device: str | None, engine: str) -> ServedModel[Pipeline]:
    folders = [Path(path)] if Path(path).is_dir() or "+" not in path else [Path(part) for part in path.split("+")]
    if len(folders) > 1:
        pipeline: Pipeline = load(*folders, device=device, engine=engine)
        bundle = Bundle.load(folders[0])
    else:
        bundle = Bundle.load(folders[0])
        pipeline = pipeline_from_bundle(bundle, device, EngineChoice.parse(engine), folders[0])
    n_parameters = sum(p.numel() for model in pipeline.members for p in model.parameters())
    return ServedModel(name, pipeline, bundle.languages, n_parameters, bundle.examples)
