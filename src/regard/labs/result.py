"""The result of a lab: question, setup, measured numbers, answer and plots, independent of how they are printed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_TOLERANCE = 0.02  # shares that differ by less than this count as nearly equal


@dataclass(frozen=True)
class Column:
    """A column of numbers in a table."""

    title: str
    format: str
    """Format specification, such as ".1%"."""


@dataclass(frozen=True)
class ResultTable:
    """Measured numbers: one row per setting, one column per quantity."""

    label_titles: tuple[str, ...]
    """Titles of the columns that name the setting."""
    columns: Mapping[str, Column]
    """Key → column of numbers."""
    rows: Mapping[tuple[str, ...], Mapping[str, float]]
    """Labels of a setting → column key → number."""

    def value(self, column: str, *labels: str) -> float:
        return self.rows[labels][column]

    def values(self, column: str) -> list[float]:
        """Return a column from top to bottom."""
        return [row[column] for row in self.rows.values()]

    def header(self) -> tuple[str, ...]:
        return (*self.label_titles, *(column.title for column in self.columns.values()))

    def formatted_rows(self) -> list[tuple[str, ...]]:
        return [
            (*labels, *(format(row[key], column.format) for key, column in self.columns.items()))
            for labels, row in self.rows.items()
        ]


@dataclass(frozen=True)
class LinePanel:
    """Lines in one plot: name → value at each of `xs`."""

    title: str
    x_label: str
    y_label: str
    xs: Sequence[float]
    lines: Mapping[str, Sequence[float]]
    log: str = ""
    """The logarithmic axes: "", "x", "y" or "xy"."""
    percent: bool = False
    """Whether the values are shares, to be shown in percent."""


@dataclass(frozen=True)
class BarPanel:
    """Grouped bars of shares, shown in percent: name → share in each of `groups`."""

    title: str
    x_label: str
    y_label: str
    groups: Sequence[str]
    bars: Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class MatrixPanel:
    """A matrix of scores [queries, keys]."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float]]


@dataclass(frozen=True)
class ArrowPanel:
    """Words as points in a plane, and arrows between points: label → (from, to)."""

    title: str
    x_label: str
    y_label: str
    words: Mapping[str, tuple[float, float]]
    arrows: Mapping[str, tuple[tuple[float, float], tuple[float, float]]]


Panel = LinePanel | BarPanel | MatrixPanel | ArrowPanel


@dataclass(frozen=True)
class LabResult:
    """What one run of a lab measured, and the answer that follows from it."""

    question: str
    setup: str
    """What was done."""
    table: ResultTable
    answer: tuple[str, str, str]
    """Three sentences that quote the measured numbers."""
    panels: tuple[Panel, ...]
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Numbers that the answer quotes and the table does not have."""

    def _repr_html_(self) -> str:
        """Show question, table, plot and answer in a notebook."""
        from regard.labs.report import to_html

        return to_html(self)


def nearly_equal(share: float, other: float) -> bool:
    return abs(share - other) < _TOLERANCE


def compare_shares(share: float, other: float, other_name: str) -> str:
    """Describe how one share compares with another, whichever is larger: "12.3 points more than with one head"."""
    if nearly_equal(share, other):
        return f"about as many as {other_name}"
    return f"{100 * abs(share - other):.1f} points {'more' if share > other else 'fewer'} than {other_name}"
