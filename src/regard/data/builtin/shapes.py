"""Coloured shapes on a grid: pictures with generated captions, and where in the picture each word belongs.

A picture is a grid of 3 × 3 cells with one large shape and up to two small ones.  The large one is named
first.  With two shapes the small one is in its row or column; with three, one is in its column and one
in its row, and the column is told first: "a red square above a blue circle and left of a green ring".  The
caption is thus a function of the picture, and no two of its shapes agree in both colour and kind.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.images import ImageArray
from regard.errors import UserError

Coordinates = NDArray[np.floating[Any]]
PixelBox = tuple[int, int, int, int]
"""top, left, bottom, right in pixels; bottom and right are the first ones outside"""

IMAGE_SIZE, GRID = 48, 3
CELL = IMAGE_SIZE // GRID
LARGE, SMALL = (13, 14), (9, 10)
"""The sides in pixels that a shape may have; a cell keeps a margin of at least one pixel around it."""
COLOURS = {
    "red": (210, 35, 40),
    "green": (30, 155, 50),
    "blue": (35, 65, 215),
    "yellow": (240, 205, 30),
    "pink": (245, 110, 195),
    "cyan": (40, 200, 215),
    "black": (30, 30, 30),
}
BACKGROUND = (225, 225, 220)
KINDS = ("circle", "square", "triangle", "cross", "ring")
SIZES = {"train": 8000, "valid": 500, "test": 1000}
_COUNTS = (1, 2, 2, 2, 2, 3, 3, 3, 3, 3)  # one tenth of the pictures hold a single shape
_MOST = 1_000_000  # scenes; there are 315 arrangements of one shape, 42,840 of two and 1,413,720 of three
_WORDS = IMAGE_SIZE * IMAGE_SIZE * 3 // 8  # 64-bit words of noise for a picture


@dataclass(frozen=True)
class Shape:
    kind: str
    colour: str
    row: int
    column: int


Arrangement = tuple[Shape, ...]
"""The large shape, the one in its column if any, the one in its row if any"""


@dataclass(frozen=True, eq=False)
class ShapeScene:
    image: ImageArray
    """uint8 [48, 48, 3]"""
    caption: str
    regions: tuple[tuple[int, PixelBox], ...]
    """(word of the caption, box of its shape) for every word of a colour or kind; words are caption.split()"""
    arrangement: Arrangement


def generate_scenes(sizes: Mapping[str, int] | None = None, seed: int = 1) -> dict[str, list[ShapeScene]]:
    """Splits of so many scenes each; no arrangement is in two of them.

    Small splits choose first.  Within a split an arrangement may come again, drawn elsewhere in its cells.
    """
    sizes = SIZES if sizes is None else sizes
    if not sizes or min(sizes.values()) < 1 or sum(sizes.values()) > _MOST:
        raise UserError(f"shapes: give every split at least 1 scene, and all of them at most {_MOST:,}")
    splits: dict[str, list[ShapeScene]] = {}
    taken: set[Arrangement] = set()
    for split in sorted(sizes, key=lambda name: (sizes[name], name)):
        sampler = SceneSampler(f"shapes {split} {seed}")
        splits[split] = [sampler.scene(taken) for _ in range(sizes[split])]
        taken |= {scene.arrangement for scene in splits[split]}
    return {split: splits[split] for split in sizes}


class SceneSampler:
    """Draws scenes.  `random.random` and raw bits alone promise the same numbers in every version."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed).random
        self.bits = np.random.PCG64(int.from_bytes(seed.encode()))

    def random_below(self, n: int) -> int:
        return int(self.random() * n)

    def scene(self, taken: set[Arrangement]) -> ShapeScene:
        while (arrangement := self.arrangement()) in taken:
            pass
        sizes = [(LARGE if i == 0 else SMALL)[self.random_below(2)] for i in range(len(arrangement))]
        boxes = [self.box(shape, size) for shape, size in zip(arrangement, sizes, strict=True)]
        caption, regions = describe(arrangement, boxes)
        return ShapeScene(self.draw(arrangement, boxes), caption, regions, arrangement)

    def arrangement(self) -> Arrangement:
        row, column = self.random_below(GRID), self.random_below(GRID)
        upright, beside = (self.other(row), column), (row, self.other(column))
        cells = [(row, column), upright, beside][: _COUNTS[self.random_below(len(_COUNTS))]]
        if len(cells) == 2 and self.random_below(2):
            cells[1] = beside
        traces: list[tuple[str, str]] = []
        while len(traces) < len(cells):
            trace = KINDS[self.random_below(len(KINDS))], tuple(COLOURS)[self.random_below(len(COLOURS))]
            if trace not in traces:
                traces.append(trace)
        return tuple(Shape(*trace, *cell) for trace, cell in zip(traces, cells, strict=True))

    def other(self, line: int) -> int:
        """One of the other rows or columns."""
        return (line + 1 + self.random_below(GRID - 1)) % GRID

    def box(self, shape: Shape, size: int) -> PixelBox:
        top, left = (line * CELL + 1 + self.random_below(CELL - 1 - size) for line in (shape.row, shape.column))
        return top, left, top + size, left + size

    def draw(self, arrangement: Arrangement, boxes: Sequence[PixelBox]) -> ImageArray:
        """Flat colours, each a shade lighter or darker, under a noise of −8 to 7 on every value."""
        picture = np.empty((IMAGE_SIZE, IMAGE_SIZE, 3), dtype=np.int16)
        picture[:] = BACKGROUND
        for shape, (top, left, bottom, right) in zip(arrangement, boxes, strict=True):
            colour = np.asarray(COLOURS[shape.colour], dtype=np.int16) + self.random_below(21) - 10
            picture[top:bottom, left:right][shape_mask(shape.kind, bottom - top)] = colour
        bits = np.asarray(self.bits.random_raw(_WORDS), dtype="<u8")
        noise = (bits.view(np.uint8) & 15).astype(np.int16).reshape(picture.shape) - 8
        return np.clip(picture + noise, 0, 255).astype(np.uint8)


def describe(arrangement: Arrangement, boxes: Sequence[PixelBox]) -> tuple[str, tuple[tuple[int, PixelBox], ...]]:
    """The caption, and the box of each of its words for a colour or kind."""
    first, words, regions = arrangement[0], [], []
    for i, (shape, box) in enumerate(zip(arrangement, boxes, strict=True)):
        if i:
            words += ["and"] * (i > 1) + relation(first, shape).split()
        words += ["a", shape.colour, shape.kind]
        regions += [(len(words) - 2, box), (len(words) - 1, box)]
    return " ".join(words), tuple(regions)


def relation(first: Shape, second: Shape) -> str:
    """Where the first is, seen from the second; they share a row or a column."""
    if first.column == second.column:
        return "above" if first.row < second.row else "below"
    return "left of" if first.column < second.column else "right of"


@cache
def shape_mask(kind: str, size: int) -> NDArray[np.bool_]:
    """Which pixels of a box [size, size] a shape covers; it touches all four sides."""
    line = np.arange(size) - (size - 1) / 2
    return _INSIDE[kind](line[:, None], line[None, :], size)


def _circle(y: Coordinates, x: Coordinates, diameter: float) -> NDArray[np.bool_]:
    inside: NDArray[np.bool_] = x**2 + y**2 <= (diameter / 2 - 0.25) ** 2  # a little less, or small ones look square
    return inside


# y and x are counted from the middle of the box.
_INSIDE: dict[str, Callable[[Coordinates, Coordinates, int], NDArray[np.bool_]]] = {
    "circle": _circle,
    "square": lambda y, x, size: np.ones((size, size), dtype=np.bool_),
    "triangle": lambda y, x, size: 2 * np.abs(x) <= y + (size + 1) / 2,
    "cross": lambda y, x, size: (np.abs(x) <= size / 7) | (np.abs(y) <= size / 7),
    "ring": lambda y, x, size: _circle(y, x, size) & ~_circle(y, x, size * 0.65),
}
