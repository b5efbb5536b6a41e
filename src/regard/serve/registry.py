"""The models that are served, by name. A name in a request is looked up here and never becomes a path."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.bundle import Bundle
from regard.errors import UserError
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.rnn import RnnDecoder
from regard.models.stack import StackDecoder, StackEncoder
from regard.pipelines.base import Pipeline
from regard.pipelines.captioner import Captioner
from regard.pipelines.classifier import Classifier
from regard.pipelines.load import pipeline_from_bundle
from regard.pipelines.translator import Translator

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Served:
    """A model with its name."""

    name: str
    pipeline: Pipeline
    languages: tuple[str, str]
    n_parameters: int
    examples: tuple[str, ...] = ()

    @property
    def model(self) -> Any:
        return self.pipeline.model

    def describe(self) -> dict[str, Any]:
        """What the page has to know before it asks for anything"""
        return {
            "id": self.name,
            "kind": self.kind,
            "task": type(self.pipeline).__name__.lower(),
            "languages": list(self.languages),
            "parameters": self.n_parameters,
            "d_model": self.model.d_model,
            "vocab": self.pipeline.tgt_tokenizer.size,
            "sites": self.sites(),
            "picture": {"size": self.pipeline.size, "regions": self.pipeline.n_regions}
            if isinstance(self.pipeline, Captioner)
            else None,
        }

    @property
    def kind(self) -> str:
        """rnn, encdec, decoder, encoder or caption"""
        if isinstance(self.pipeline, Captioner):
            return "caption"
        if isinstance(self.model, EncoderDecoder):
            return "rnn" if isinstance(self.model.decoder, RnnDecoder) else "encdec"
        return "encoder" if isinstance(self.pipeline, Classifier) else "decoder"

    def sites(self) -> dict[str, list[int]]:
        """Layers and heads of each kind of attention that there is"""
        sides: dict[str, Any] = {name: getattr(self.model, name, None) for name in ("encoder", "decoder")}
        found: dict[str, list[Any]] = {}
        for name, side in sides.items():
            part = getattr(side, "stack", side)
            mixer: Any = part.layers[0].mixer if isinstance(part, StackEncoder | StackDecoder) else None
            if hasattr(mixer, "n_heads"):
                found[name] = [len(part.layers), mixer.n_heads]
        decoder = sides["decoder"]
        cross: Any = decoder.layers[0].cross if isinstance(decoder, StackDecoder) else None
        if cross is not None:
            found["cross"] = [len(decoder.layers), cross.n_heads]
        elif isinstance(decoder, RnnDecoder) and decoder.attends:
            found["cross"] = [1, 1]
        elif self.kind == "decoder" and isinstance(self.pipeline, Translator) and "decoder" in found:
            found |= {"encoder": found["decoder"], "cross": found["decoder"]}
        return found


class Registry:
    def __init__(self, models: Sequence[Served]) -> None:
        self._models = {served.name: served for served in models}

    @classmethod
    def open(cls, folders: Sequence[Path], device: str | None = None) -> "Registry":
        """Models named by their directories, `NAME=DIR` names one otherwise"""
        models: dict[str, Served] = {}
        for folder in folders:
            name, given, path = str(folder).partition("=")
            if not given or folder.is_dir():  # a directory may have the sign in its name
                name, path = folder.resolve().name, str(folder)
            name = name.lower()
            if not _NAME.fullmatch(name):
                raise UserError(f"'{name}' cannot name a model; write name={path} with letters, digits, dot, dash")
            if name in models:
                raise UserError(f"two models are named '{name}'; write name=DIR to name one otherwise")
            models[name] = _opened(name, Path(path), device)
        return cls(list(models.values()))

    def __getitem__(self, name: str) -> Served:
        return self._models[name]

    def __contains__(self, name: object) -> bool:
        return name in self._models

    def __iter__(self) -> Iterator[Served]:
        return iter(self._models.values())

    def of_kind(self, kind: type[Any]) -> list[Served]:
        return [served for served in self if isinstance(served.pipeline, kind)]


def _opened(name: str, folder: Path, device: str | None) -> Served:
    bundle = Bundle.load(folder)
    n_parameters = sum(p.numel() for p in bundle.model.parameters())
    return Served(name, pipeline_from_bundle(bundle, device), bundle.languages, n_parameters, bundle.examples)
