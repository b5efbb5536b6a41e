"""Images of coloured shapes with captions, and the region of the image that each word describes.

An image is a grid of 3 × 3 cells with one large shape and up to two small ones.  The caption names the large shape
first.  With two shapes, the small one is in the row or column of the large one; with three, one is in its column and
one in its row, and the caption names the one in the column first: "a red square above a blue circle and left of a
green ring".  The caption is thus a function of the image, and no two shapes of an image have the same colour and kind.
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
"""Top, left, bottom, right in pixels; bottom and right are exclusive."""

IMAGE_SIZE, GRID = 48, 3
CELL = IMAGE_SIZE // GRID
LARGE, SMALL = (13, 14), (9, 10)
"""Possible sizes of a shape in pixels; they leave a margin of at least one pixel in the cell."""
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
_COUNTS = (
    1,
    2,
    2,
    2,
    2,
    3,
    3,
    3,
    3,
    3,
)  # shapes per image: a tenth of the images have a single shape
_MAX_SCENES = 1_000_000  # there are 315 arrangements of one shape, 42,840 of two and 1,413,720 of three
_NOISE_WORDS = IMAGE_SIZE * IMAGE_SIZE * 3 // 8  # 64-bit words of noise per image


@dataclass(frozen=True)
class Shape:
    kind: str
    colour: str
    row: int
    column: int


Arrangement = tuple[Shape, ...]
"""The large shape, the shape in its column if any, the shape in its row if any."""


@dataclass(frozen=True, eq=False)
class ShapeScene:
    image: ImageArray
    """uint8 [48, 48, 3]"""
    caption: str
    regions: tuple[tuple[int, PixelBox], ...]
    """(index in caption.split(), box of the shape) for every word that names a colour or a kind of shape."""
    arrangement: Arrangement


def generate_scenes(sizes: Mapping[str, int] | None = None, seed: int = 1) -> dict[str, list[ShapeScene]]:
    """Return sizes[split] scenes per split; no arrangement is in two splits.

    The smallest split is drawn first.  Within a split an arrangement may occur again, with the shapes at other places
    in their cells.
    """
    sizes = SIZES if sizes is None else sizes
    if not sizes or min(sizes.values()) < 1 or sum(sizes.values()) > _MAX_SCENES:
        raise UserError(f"shapes: give every split at least 1 scene, and all of them at most {_MAX_SCENES:,}")
    splits: dict[str, list[ShapeScene]] = {}
    used: set[Arrangement] = set()
    for split in sorted(sizes, key=lambda name: (sizes[name], name)):
        sampler = SceneSampler(f"shapes {split} {seed}")
        splits[split] = [sampler.scene(used) for _ in range(sizes[split])]
        used |= {scene.arrangement for scene in splits[split]}
    return {split: splits[split] for split in sizes}


class SceneSampler:
    """Draws random scenes.

    It uses only `random.random` and raw bits, which are guaranteed to be the same in every version of Python and NumPy.
    """

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed).random
        self.bits = np.random.PCG64(int.from_bytes(seed.encode()))

    def random_below(self, n: int) -> int:
        """Draw an integer from 0 to n − 1."""
        return int(self.random() * n)

    def scene(self, used: set[Arrangement]) -> ShapeScene:
        """Draw a scene whose arrangement is not among `used`."""
        while (arrangement := self.arrangement()) in used:
            pass
        sizes = [(LARGE if i == 0 else SMALL)[self.random_below(2)] for i in range(len(arrangement))]
        boxes = [self.box(shape, size) for shape, size in zip(arrangement, sizes, strict=True)]
        caption, regions = describe(arrangement, boxes)
        return ShapeScene(self.draw(arrangement, boxes), caption, regions, arrangement)

    def arrangement(self) -> Arrangement:
        """Draw one to three shapes that differ in kind or colour, and their cells."""
        row, column = self.random_below(GRID), self.random_below(GRID)
        in_column, in_row = (self.other(row), column), (row, self.other(column))
        cells = [(row, column), in_column, in_row][: _COUNTS[self.random_below(len(_COUNTS))]]
        if len(cells) == 2 and self.random_below(2):
            cells[1] = in_row
        appearances: list[tuple[str, str]] = []
        while len(appearances) < len(cells):
            appearance = KINDS[self.random_below(len(KINDS))], tuple(COLOURS)[self.random_below(len(COLOURS))]
            if appearance not in appearances:
                appearances.append(appearance)
        return tuple(Shape(*appearance, *cell) for appearance, cell in zip(appearances, cells, strict=True))

    def other(self, line: int) -> int:
        """Draw one of the other rows or columns."""
        return (line + 1 + self.random_below(GRID - 1)) % GRID

    def box(self, shape: Shape, size: int) -> PixelBox:
        """Draw where in its cell a shape is."""
        top, left = (line * CELL + 1 + self.random_below(CELL - 1 - size) for line in (shape.row, shape.column))
        return top, left, top + size, left + size

    def draw(self, arrangement: Arrangement, boxes: Sequence[PixelBox]) -> ImageArray:
        """Draw the image: each shape in its colour, slightly lighter or darker, plus noise from −8 to 7 per value."""
        image = np.empty((IMAGE_SIZE, IMAGE_SIZE, 3), dtype=np.int16)
        image[:] = BACKGROUND
        for shape, (top, left, bottom, right) in zip(arrangement, boxes, strict=True):
            colour = np.asarray(COLOURS[shape.colour], dtype=np.int16) + self.random_below(21) - 10
            image[top:bottom, left:right][shape_mask(shape.kind, bottom - top)] = colour
        bits = np.asarray(self.bits.random_raw(_NOISE_WORDS), dtype="<u8")
        noise = (bits.view(np.uint8) & 15).astype(np.int16).reshape(image.shape) - 8
        return np.clip(image + noise, 0, 255).astype(np.uint8)


def describe(arrangement: Arrangement, boxes: Sequence[PixelBox]) -> tuple[str, tuple[tuple[int, PixelBox], ...]]:
    """Return the caption, and (word index, box) for each of its words that names a colour or a kind."""
    first, words, regions = arrangement[0], [], []
    for i, (shape, box) in enumerate(zip(arrangement, boxes, strict=True)):
        if i:
            words += ["and"] * (i > 1) + relation(first, shape).split()
        words += ["a", shape.colour, shape.kind]
        regions += [(len(words) - 2, box), (len(words) - 1, box)]
    return " ".join(words), tuple(regions)


def relation(first: Shape, second: Shape) -> str:
    """Return where the first shape is relative to the second; they share a row or a column."""
    if first.column == second.column:
        return "above" if first.row < second.row else "below"
    return "left of" if first.column < second.column else "right of"


@cache
def shape_mask(kind: str, size: int) -> NDArray[np.bool_]:
    """Return which pixels of a box [size, size] a shape covers; it touches all four sides."""
    offsets = np.arange(size) - (size - 1) / 2
    return _INSIDE[kind](offsets[:, None], offsets[None, :], size)


def _circle(y: Coordinates, x: Coordinates, diameter: float) -> NDArray[np.bool_]:
    inside: NDArray[np.bool_] = x**2 + y**2 <= (diameter / 2 - 0.25) ** 2  # smaller, or small circles look square
    return inside


# y and x are offsets from the centre of the box.
_INSIDE: dict[str, Callable[[Coordinates, Coordinates, int], NDArray[np.bool_]]] = {
    "circle": _circle,
    "square": lambda y, x, size: np.ones((size, size), dtype=np.bool_),
    "triangle": lambda y, x, size: 2 * np.abs(x) <= y + (size + 1) / 2,
    "cross": lambda y, x, size: (np.abs(x) <= size / 7) | (np.abs(y) <= size / 7),
    "ring": lambda y, x, size: _circle(y, x, size) & ~_circle(y, x, size * 0.65),
}
