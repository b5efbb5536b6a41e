"""The verb pipeline."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.app import (
    checked_device,
)
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.pipelines.translator import Translator


def translator_in(*folders: Path, device: str | None) -> "Translator":
    from regard.pipelines.load import load_translator

    return load_translator(*folders, device=checked_device(device))


def loaded(folder: Path, kind: type[Any], noun: str, device: str | None) -> Any:
    from regard.pipelines.load import load

    found = load(folder, device=checked_device(device))
    if not isinstance(found, kind):
        raise UserError(f"{folder}: is no {noun}")
    return found


Texts = Annotated[list[str] | None, typer.Option(help="This text instead of standard input; repeatable.")]
