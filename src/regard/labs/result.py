"""What a lab found, as a value: others write it down and draw it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_MARGIN = 0.02  # shares of right answers that are nearer to each other than this count as alike


@dataclass(frozen=True)
class LinePanel:
    """Lines over one axis: name → the height at each of `xs`"""

    title: str
    x_label: str
    y_label: str
    xs: Sequence[float]
    lines: Mapping[str, Sequence[float]]
    log: str = ""
    """The axes that are logarithmic: "", "x", "y" or "xy" """
    percent: bool = False


@dataclass(frozen=True)
class BarPanel:
    """Groups of bars, shares in per cent: name → the height in each of `groups`"""

    title: str
    x_label: str
    y_label: str
    groups: Sequence[str]
    bars: Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class MatrixPanel:
    """A matrix: what asks down the side, what is asked across the top"""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float]]


@dataclass(frozen=True)
class ArrowPanel:
    """Words in a plane, and where some of them move: label → (from, to)"""

    title: str
    x_label: str
    y_label: str
    words: Mapping[str, tuple[float, float]]
    moves: Mapping[str, tuple[tuple[float, float], tuple[float, float]]]


Panel = LinePanel | BarPanel | MatrixPanel | ArrowPanel


@dataclass(frozen=True)
class LabResult:
    question: str
    setup: str
    """What was done"""
    table: tuple[tuple[str, ...], ...]
    """The head, then the rows"""
    answer: tuple[str, str, str]
    """Three sentences, filled in with what was measured"""
    panels: tuple[Panel, ...]


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def alike(share: float, other: float) -> bool:
    return abs(share - other) < _MARGIN


def against(share: float, other: float, name: str) -> str:
    """How a share compares with another, in words that are true whichever way a run came out"""
    if alike(share, other):
        return f"about as many as {name}"
    return f"{100 * abs(share - other):.1f} points {'more' if share > other else 'fewer'} than {name}"
