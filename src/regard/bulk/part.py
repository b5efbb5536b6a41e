"""Parts: consecutive lines of a file that are translated together, and the files of their translations."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.data_file import DataFile
from regard.errors import UserError

PART_LINES = 8_192
"""Lines per part: enough to fill a GPU, and on a CPU core a few minutes of work at most are lost"""


@dataclass(frozen=True)
class LinePart:
    """Consecutive lines of a file, and where their translations are to be written."""

    out: Path
    first: int
    """The number of the first line in its file"""
    lines: list[str]

    def to_json(self) -> dict[str, Any]:
        """Return what a worker needs to know."""
        return {"lines": self.lines, "first": self.first}


def read_part(path: Path) -> Iterator[bytes]:
    """Yield the lines of a part that was written."""
    try:
        yield from DataFile(path).lines()
    except UserError:
        raise damaged_part(path) from None


def damaged_part(path: Path) -> UserError:
    return UserError(f"{path}: damaged; delete it and give the command again")
