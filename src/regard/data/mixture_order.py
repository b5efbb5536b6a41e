"""Which pairs of a mixture each epoch has, as a function of (seed, epoch).

Each corpus is an endless sequence: all of its pairs in random order, then all of them in another order, and so on. An
epoch takes the next pairs of each corpus, in numbers that follow from the shares. A corpus with a small share is thus
seen completely, over several epochs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from regard.data.mixture import Mixture, StageConfig
from regard.data.modifiers import Modifier
from regard.data.row_windows import Rows, n_windows, shuffled_blocks
from regard.errors import UserError

_STREAM = 1  # distinguishes these random numbers from others of the same seed


@dataclass(frozen=True)
class Stage:
    """Epochs with the same shares."""

    name: str
    amounts: tuple[Fraction, ...]
    """Pairs of each corpus per epoch; epochs round them so that no pair is lost or gained in the long run"""
    epochs: int | None
    """None: without end"""
    modifiers: tuple[Modifier, ...]

    @property
    def shares(self) -> tuple[Fraction, ...]:
        return tuple(amount / sum(self.amounts) for amount in self.amounts)

    def taken(self, epochs: int) -> list[int]:
        """Return how many pairs of each corpus the first epochs of this stage take."""
        return [floor(epochs * amount) for amount in self.amounts]


@dataclass(frozen=True)
class MixtureOrder:
    """The rows and modifiers of each epoch of a mixture."""

    names: tuple[str, ...]
    """Of the corpora"""
    rows: tuple[Rows, ...]
    """The rows of each corpus"""
    stages: tuple[Stage, ...]
    """The last one has no end"""
    seed: int
    fingerprint: str

    @classmethod
    def plan(cls, mixture: Mixture, rows: Mapping[str, Rows], seed: int) -> "MixtureOrder":
        """Return the order of a mixture, of which each corpus has these rows."""
        if empty := next((name for name, some in rows.items() if not len(some)), None):
            raise UserError(f"{empty}: no pair is left for training; give validation files, or leave the corpus out")
        sizes = {name: len(some) for name, some in rows.items()}
        stages = [_staged(mixture, stage, sizes) for stage in mixture.stages] or [_unstaged(mixture, sizes)]
        last = stages[-1]
        stages[-1] = Stage(last.name, last.amounts, None, last.modifiers)
        seed = seed if mixture.seed is None else mixture.seed
        return cls(tuple(rows), tuple(rows.values()), tuple(stages), seed, mixture.fingerprint)

    def n_windows(self, epoch: int) -> int:
        return n_windows(sum(end - start for start, end in self._ranges(epoch)))

    def __call__(self, epoch: int, window: int = 0) -> NDArray[np.int64]:
        """Return the rows of a window of an epoch in increasing order; a row that is seen twice occurs twice."""
        windows = self.n_windows(epoch)
        parts = [
            self._take(i, start + (end - start) * window // windows, start + (end - start) * (window + 1) // windows)
            for i, (start, end) in enumerate(self._ranges(epoch))
        ]
        return np.sort(np.concatenate(parts))

    def _ranges(self, epoch: int) -> list[tuple[int, int]]:
        """Return the part of the endless sequence of each corpus that an epoch has."""
        stage, first, positions = self._find_stage(epoch)
        limits = zip(positions, stage.taken(epoch - first), stage.taken(epoch + 1 - first), strict=True)
        return [(position + start, position + end) for position, start, end in limits]

    def modifiers(self, epoch: int) -> tuple[Modifier, ...]:
        """Return the modifiers of an epoch."""
        return self._find_stage(epoch)[0].modifiers

    def sample(self, n: int) -> NDArray[np.int64]:
        """Return about n rows in which each corpus has its share, averaged over the stages."""
        shares = [
            sum(column) / len(self.stages) for column in zip(*(stage.shares for stage in self.stages), strict=True)
        ]
        return np.concatenate([self._take(i, 0, ceil(n * share)) for i, share in enumerate(shares)])

    def describe(self) -> Iterator[str]:
        """Yield a line per stage about its epochs and shares."""
        first = 1
        for stage in self.stages:
            shares = ", ".join(
                f"{name} {float(100 * share):.3g} %"
                for name, share in zip(self.names, stage.shares, strict=True)
                if share
            )
            epochs = (
                f"from epoch {first:,} on"
                if stage.epochs is None
                else f"epochs {first:,} to {first + stage.epochs - 1:,}"
            )
            yield f"{stage.name}: {epochs}, {floor(sum(stage.amounts)):,} pairs each: {shares}"
            first += stage.epochs or 0

    def _find_stage(self, epoch: int) -> tuple[Stage, int, list[int]]:
        """Return the stage of an epoch, its first epoch, and how many pairs of each corpus were taken before it."""
        first, positions = 0, [0] * len(self.rows)
        for stage in self.stages:
            if stage.epochs is None or epoch < first + stage.epochs:
                break
            first += stage.epochs
            positions = [a + b for a, b in zip(positions, stage.taken(stage.epochs), strict=True)]
        return stage, first, positions

    def _take(self, corpus: int, start: int, end: int) -> NDArray[np.int64]:
        """Return the rows start … end − 1 of the endless sequence of a corpus."""
        rows, n = self.rows[corpus], len(self.rows[corpus])
        passes = []
        for number in range(start // n, ceil(Fraction(end, n))):
            low, high = max(start - number * n, 0), min(end - number * n, n)
            passes.append(rows[self._positions(corpus, number, low, high)])
        return np.concatenate(passes) if passes else np.empty(0, dtype=np.int64)

    def _positions(self, corpus: int, number: int, low: int, high: int) -> NDArray[np.int64]:
        """Return which pairs of a corpus are at the positions low … high − 1 of a pass."""
        n = len(self.rows[corpus])
        if high - low == n:
            return np.arange(n)
        bits = np.random.Philox(np.random.SeedSequence([self.seed, _STREAM, corpus, number]))
        if n_windows(n) > 1:
            return shuffled_blocks(n, low, high, bits)
        return np.random.Generator(bits).permutation(n)[low:high]


def _unstaged(mixture: Mixture, sizes: Mapping[str, int]) -> Stage:
    """Return the only stage of a mixture without stages; an epoch has as many pairs as the corpora."""
    copies = {c.name: c.upsample * sizes[c.name] for c in mixture.corpora if c.name in sizes}
    if mixture.temperature is not None:
        weights = {name: float(n) ** (1 / mixture.temperature) for name, n in copies.items()}
    elif mixture.is_weighted:
        weights = mixture.weights
    else:
        return Stage("mixture", tuple(Fraction(copies[name]) for name in sizes), None, mixture.modifiers)
    return Stage("mixture", _amounts(weights, sizes, sum(copies.values())), None, mixture.modifiers)


def _staged(mixture: Mixture, stage: StageConfig, sizes: Mapping[str, int]) -> Stage:
    """Return a stage of whole epochs, each with about as many pairs as the corpora that have a share in it."""
    size = sum(n for name, n in sizes.items() if stage.weights.get(name))
    modifiers = mixture.modifiers if stage.modifiers is None else stage.modifiers
    name = f"stage {stage.name}"
    if stage.passes is None:
        return Stage(name, _amounts(stage.weights, sizes, size), None, modifiers)
    share = _exact(stage.weights[stage.until]) / sum(map(_exact, stage.weights.values()))
    total = stage.passes * sizes[stage.until] / share
    epochs = ceil(total / size)
    return Stage(name, _amounts(stage.weights, sizes, total / epochs), epochs, modifiers)


def _amounts(weights: Mapping[str, float], sizes: Mapping[str, int], total: int | Fraction) -> tuple[Fraction, ...]:
    """Divide `total` pairs by weight."""
    exact = [_exact(weights.get(name, 0.0)) for name in sizes]
    return tuple(total * weight / sum(exact) for weight in exact)


def _exact(number: float) -> Fraction:
    """Return a number as it was written: 0.3 is 3/10."""
    return Fraction(str(number))
