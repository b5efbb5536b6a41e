"""Loading a model directory as the kind of pipeline that a verb needs."""

from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.output import print_warning

if TYPE_CHECKING:
    from regard.pipelines.captioner import Captioner
    from regard.pipelines.classifier import Classifier
    from regard.pipelines.generator import Generator
    from regard.pipelines.load import PipelineT
    from regard.pipelines.translator import Translator


def load_any(
    *folders: Path,
    device: str | None,
    engine: str = "torch",
    draft: Path | None = None,
    rerank: Path | None = None,
) -> "Translator | Generator | Classifier | Captioner":
    """Load a model of any kind, or several translators as an ensemble."""
    from regard.pipelines.load import load

    return say_engine(load(*folders, device=check_device(device), engine=engine, draft=draft, rerank=rerank), engine)


def load_translator(
    folder: Path, device: str | None, max_source: int | None = None, engine: str = "torch"
) -> "Translator":
    """Load a translator; `max_source` is the limit on its sources, if not its own."""
    from regard.pipelines import load

    translator = load.load_translator(folder, device=check_device(device), engine=engine)
    return say_engine(translator, engine).limit_sources(max_source)


def say_engine(pipeline: "PipelineT", engine: str) -> "PipelineT":
    """Print which engine a pipeline uses, if the user has chosen one."""
    from regard.pipelines.engine import EngineChoice

    if line := EngineChoice.parse(engine).describe(getattr(pipeline, "engine", None)):
        print_warning(line)
    return pipeline


def load_kind(folder: Path, kind: "type[PipelineT]", device: str | None) -> "PipelineT":
    """Load a model that must be of one kind."""
    from regard.pipelines.load import load_as

    return load_as(kind, folder, device=check_device(device))


def check_device(name: str | None) -> str | None:
    """Return the name of a device after a check that torch can use it."""
    from regard.pipelines.base import device_named

    if name is not None:
        device_named(name)
    return name
