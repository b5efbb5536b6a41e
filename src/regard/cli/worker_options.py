"""Options of bulk translation that verbs share, as a group."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.pipeline import check_device
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.bulk.workers import Workers


@dataclass(frozen=True)
class WorkerOptions:
    """Which processes translate, and how much each gets at once."""

    workers: Annotated[
        int | None,
        typer.Option(
            min=1, max=4096, help="Processes that translate.  [default: one per GPU or, without any, per core]"
        ),
    ] = None
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Translate on this Ray cluster (HOST:PORT or auto); local starts one."),
    ] = None
    part_lines: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=2**31,
            help="Lines per part; a stopped job continues after its last complete part.  [default: 8192]",
        ),
    ] = None

    def choose(self, device: str | None) -> "Workers":
        """Return the workers that were chosen, for a device if one was chosen too."""
        from regard.bulk.workers import Workers

        return Workers(self.workers, self.ray, check_device(device) if self.ray is None else device)

    def check_unused(self) -> None:
        """Refuse these options where nothing is translated in parts."""
        for option, value in (("--workers", self.workers), ("--ray", self.ray), ("--part-lines", self.part_lines)):
            if value is not None:
                raise UserError(
                    f"{option} is for files of lines that are translated into a folder; add --output FOLDER"
                )

    def lines(self) -> int:
        """Return the number of lines per part."""
        from regard.bulk.part import PART_LINES

        return self.part_lines or PART_LINES
