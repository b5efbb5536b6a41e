"""The lengths of the pairs of a corpus as a picture."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.pair_rules import RATIO, usual_ratio
from regard.data.pair_table import PairTable
from regard.data.parallel_corpus import ParsedCorpus
from regard.errors import UserError
from regard.paths import check_output_file
from regard.visualize.figure import new_figure, save_figure

_MOST_POINTS = 5_000  # of usual pairs; more would only cover each other
_MOST_MARKED = 2_000
_MOST_BARS = 50


def check_picture(path: Path) -> None:
    """Refuse a picture that cannot be written, before anything is read."""
    if path.suffix not in (".png", ".svg"):
        raise UserError(f"--picture {path}: give a file ending in .png or .svg")
    check_output_file(path, "--picture")
    new_figure(1, 1)


def draw_corpus(corpus: ParsedCorpus, path: Path) -> Path:
    """Draw how long the texts of both sides are, and the lengths of sources against those of targets."""
    table = corpus.table
    figure = new_figure(10, 4.2)
    histogram, scatter = figure.subplots(1, 2)
    _draw_lengths(histogram, table)
    _draw_pairs(scatter, table)
    for axes in (histogram, scatter):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    figure.suptitle(f"{corpus.name}: {len(corpus):,} pairs", fontsize=11)
    return save_figure(figure, path)


def _draw_lengths(axes: Any, table: PairTable) -> None:
    limit = int(np.percentile(table.lengths, 99.5)) + 1
    step = -(-limit // _MOST_BARS)  # a whole number: bars that cover one length more than others would stick out
    bins = np.arange(0, limit + step, step)
    for side, (name, color) in enumerate((("source", "tab:blue"), ("target", "tab:orange"))):
        axes.hist(table.lengths[:, side], bins=bins, histtype="step", linewidth=1.6, color=color, label=name)
    axes.set(xlabel="characters per text", ylabel="texts", title="Lengths", xlim=(0, bins[-1]))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.legend(frameon=False)


def _draw_pairs(axes: Any, table: PairTable) -> None:
    from matplotlib.ticker import LogLocator

    extreme = RATIO(table)
    usual, marked = _sample(np.flatnonzero(~extreme), _MOST_POINTS), _sample(np.flatnonzero(extreme), _MOST_MARKED)
    axes.scatter(*table.lengths[usual].T, s=5, color="0.45", alpha=0.4, linewidths=0, label="pairs")
    if len(marked):
        label = f"extreme ratio ({int(extreme.sum()):,})"
        axes.scatter(*table.lengths[marked].T, s=28, color="tab:red", marker="x", linewidths=1.2, label=label)
    ratio = usual_ratio(table)
    ends = np.percentile(table.lengths[:, 0], (0, 100))
    axes.plot(ends, ends * ratio, color="tab:green", linewidth=1.2, label=f"usual ratio {ratio:.2f}")
    axes.set(xlabel="source characters", ylabel="target characters", title="Pairs", xscale="log", yscale="log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:,.0f}")
        axis.set_minor_formatter("")
    axes.legend(frameon=False, loc="upper left", fontsize=8)


def _sample(rows: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Return at most n of the rows, evenly spaced."""
    return rows[:: -(-len(rows) // n)] if len(rows) > n else rows
