"""Figures: the one place that knows matplotlib, which is an extra."""

import io
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.files import write_atomically


def new_figure(width: float, height: float) -> Any:
    """An empty figure of so many inches that needs no screen."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UserError("drawing needs a package: pip install 'regard[plot]'") from None
    return Figure(figsize=(width, height), layout="constrained")


def can_draw() -> bool:
    return find_spec("matplotlib") is not None


def save_figure(figure: Any, path: Path) -> Path:
    """Write it in the format of the path's suffix."""
    content = io.BytesIO()
    figure.savefig(content, format=path.suffix.removeprefix("."), dpi=150)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content.getvalue())
    return path
