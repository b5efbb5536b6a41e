"""Loading a model directory as the kind of pipeline that a verb needs."""

from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import UserError

if TYPE_CHECKING:
    from regard.pipelines.base import Pipeline
    from regard.pipelines.load import PipelineT
    from regard.pipelines.translator import Translator


def load_any(folder: Path, device: str | None) -> "Pipeline":
    """Load a model of any kind."""
    from regard.pipelines.load import load

    return load(folder, device=check_device(device))


def load_translator(*folders: Path, device: str | None) -> "Translator":
    """Load a translator, or several as an ensemble."""
    from regard.pipelines import load

    return load.load_translator(*folders, device=check_device(device))


def load_kind(folder: Path, kind: "type[PipelineT]", device: str | None) -> "PipelineT":
    """Load a model that must be of one kind."""
    from regard.pipelines.load import load_as

    return load_as(kind, folder, device=check_device(device))


def check_device(name: str | None) -> str | None:
    """Return the name of a device after a check that torch can use it."""
    import torch

    if name is None:
        return None
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError):
        raise UserError(f"--device {name}: no such device on this machine; leave --device out") from None
    return name
