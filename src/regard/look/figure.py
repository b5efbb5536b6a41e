"""Figures: the one place that knows matplotlib, which is an extra."""

from pathlib import Path
from typing import Any

from regard.errors import UserError


def new_figure(width: float, height: float) -> Any:
    """An empty figure of so many inches that needs no screen."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UserError("drawing needs a package: pip install 'regard[plot]'") from None
    return Figure(figsize=(width, height), layout="constrained")


def can_draw() -> bool:
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def save_figure(figure: Any, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    return path
