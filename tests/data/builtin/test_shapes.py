from collections import Counter

import numpy as np
import pytest

from regard.data.builtin.shapes import (
    BACKGROUND,
    CELL,
    COLOURS,
    GRID,
    IMAGE_SIZE,
    KINDS,
    LARGE,
    SMALL,
    PixelBox,
    Shape,
    ShapeScene,
    describe,
    generate_scenes,
    relation,
    shape_mask,
)
from regard.data.images import ImageArray
from regard.errors import UserError

SIZES = {"train": 400, "valid": 60, "test": 100}
NAMES = list(COLOURS)


@pytest.fixture(scope="module")
def splits() -> dict[str, list[ShapeScene]]:
    return generate_scenes(SIZES)


@pytest.fixture(scope="module")
def everything(splits: dict[str, list[ShapeScene]]) -> list[ShapeScene]:
    return [scene for split in splits.values() for scene in split]


def nearest_colours(image: ImageArray) -> np.ndarray:
    """Return the index of the colour nearest to each pixel [IMAGE_SIZE, IMAGE_SIZE]; len(COLOURS): background."""
    colours = np.array([*COLOURS.values(), BACKGROUND])
    distances = np.abs(image[:, :, None].astype(int) - colours).sum(-1)
    return distances.argmin(-1)


def detect_shapes(image: ImageArray) -> list[tuple[Shape, PixelBox]]:
    """Return the shapes and their boxes, the largest first, from the pixels alone."""
    shapes, kinds = [], nearest_colours(image)
    for row in range(GRID):
        for column in range(GRID):
            cell = kinds[row * CELL :, column * CELL :][:CELL, :CELL]
            ys, xs = np.nonzero(cell < len(COLOURS))
            if not len(ys):
                continue
            (colour,) = set(cell[ys, xs].tolist())
            top, left, size = ys.min(), xs.min(), np.ptp(ys) + 1
            assert np.ptp(xs) + 1 == size, "boxes are square"
            drawn = cell[top : top + size, left : left + size] < len(COLOURS)
            (kind,) = (k for k in KINDS if np.array_equal(shape_mask(k, int(size)), drawn))
            y, x = int(row * CELL + top), int(column * CELL + left)
            shapes.append((Shape(kind, NAMES[colour], row, column), (y, x, y + int(size), x + int(size))))
    return sorted(shapes, key=lambda each: each[1][0] - each[1][2])


def test_the_caption_is_a_function_of_the_image(everything: list[ShapeScene]) -> None:
    for scene in everything:
        (first, box), *others = detect_shapes(scene.image)
        words, boxes = [f"a {first.colour} {first.kind}"], [box]
        assert box[2] - box[0] in LARGE and all(b[2] - b[0] in SMALL for _, b in others), "one is the largest"
        assert all((s.row == first.row) != (s.column == first.column) for s, _ in others), "never on a diagonal"
        for shape, other in sorted(others, key=lambda each: each[0].column != first.column):
            words.append(f"{relation(first, shape)} a {shape.colour} {shape.kind}")
            boxes.append(other)
        assert scene.caption == " and ".join([" ".join(words[:2]), *words[2:]])
        assert [box for _, box in scene.regions] == [box for box in boxes for _ in range(2)]
        assert set(scene.arrangement) == {first, *(s for s, _ in others)}


def test_regions_contain_the_shapes_that_the_words_name(everything: list[ShapeScene]) -> None:
    for scene in everything:
        words = scene.caption.split()
        named = {i for i, word in enumerate(words) if word in COLOURS or word in KINDS}
        regions = dict(scene.regions)
        assert set(regions) == named and len(regions) == len(scene.regions)
        for i in (i for i in named if words[i] in COLOURS):
            assert regions[i] == regions[i + 1], "a colour and its shape have the same box"
            top, left, bottom, right = regions[i]
            inside = scene.image[top:bottom, left:right][shape_mask(words[i + 1], bottom - top)]
            assert np.abs(inside.mean(0) - COLOURS[words[i]]).max() < 15
        elsewhere = np.ones((IMAGE_SIZE, IMAGE_SIZE), dtype=bool)
        for top, left, bottom, right in regions.values():
            elsewhere[top:bottom, left:right] = False
        assert np.abs(scene.image[elsewhere].astype(int) - BACKGROUND).max() <= 8, "nothing outside the boxes"


def test_no_arrangement_is_in_two_splits(splits: dict[str, list[ShapeScene]]) -> None:
    assert {name: len(split) for name, split in splits.items()} == SIZES and list(splits) == list(SIZES)
    arrangements = [{frozenset(scene.arrangement) for scene in split} for split in splits.values()]
    assert sum(map(len, arrangements)) == len(set.union(*arrangements))


def test_single_shapes_are_disjoint_although_there_are_few(splits: dict[str, list[ShapeScene]]) -> None:
    large = generate_scenes({"train": 3000, "test": 3000})
    singles = [{scene.arrangement for scene in split if len(scene.arrangement) == 1} for split in large.values()]
    assert not singles[0] & singles[1] and min(map(len, singles)) > 30


def test_the_same_seed_gives_the_same_scenes(splits: dict[str, list[ShapeScene]]) -> None:
    again, other = generate_scenes(SIZES), generate_scenes(SIZES, seed=2)
    for name, split in splits.items():
        assert all(
            np.array_equal(a.image, b.image) and (a.caption, a.regions) == (b.caption, b.regions)
            for a, b in zip(split, again[name], strict=True)
        )
        assert [s.caption for s in split] != [s.caption for s in other[name]]
    assert len({scene.image.tobytes() for split in splits.values() for scene in split}) == sum(SIZES.values())


def test_an_arrangement_has_one_caption_of_few_words(everything: list[ShapeScene]) -> None:
    captions = {(scene.arrangement, scene.caption) for scene in everything}
    assert len(captions) == len({scene.arrangement for scene in everything})
    words = {word for scene in everything for word in scene.caption.split()}
    assert words == {"a", "and", "above", "below", "left", "right", "of", *COLOURS, *KINDS}
    counts = Counter(len(scene.arrangement) for scene in everything)
    assert set(counts) == {1, 2, 3} and min(counts.values()) > 20
    for scene in everything:
        assert scene.image.dtype == np.uint8 and scene.image.shape == (IMAGE_SIZE, IMAGE_SIZE, 3)
        appearances = [(shape.kind, shape.colour) for shape in scene.arrangement]
        assert len(set(appearances)) == len(appearances), "each mention identifies one shape"


def test_captions_name_the_large_shape_first_and_the_column_before_the_row() -> None:
    corner, below, beside = (
        Shape("square", "red", 1, 1),
        Shape("circle", "blue", 2, 1),
        Shape("ring", "green", 1, 0),
    )
    boxes = [(17, 17, 30, 30), (33, 17, 42, 26), (17, 1, 26, 10)]
    caption, regions = describe((corner, below, beside), boxes)
    assert caption == "a red square above a blue circle and right of a green ring"
    assert regions == tuple((word, boxes[word // 5]) for word in (1, 2, 5, 6, 11, 12))
    assert describe((below, corner), boxes[:2])[0] == "a blue circle below a red square"
    assert describe((beside, corner), boxes[:2])[0] == "a green ring left of a red square"


@pytest.mark.parametrize("size", [*LARGE, *SMALL])
def test_masks_fill_their_box_and_differ(size: int) -> None:
    drawn = [shape_mask(kind, size) for kind in KINDS]
    assert all(s[0].any() and s[-1].any() and s[:, 0].any() and s[:, -1].any() for s in drawn)
    differences = [(a != b).mean() for i, a in enumerate(drawn) for b in drawn[:i]]
    assert min(differences) > 0.15


def test_colours_are_easy_to_tell_apart() -> None:
    colours = np.array([*COLOURS.values(), BACKGROUND])
    distances = np.linalg.norm(colours[:, None] - colours[None], axis=-1)
    assert distances[~np.eye(len(colours), dtype=bool)].min() > 100


@pytest.mark.parametrize("sizes", [{}, {"train": 0}, {"train": 10**9}])
def test_impossible_sizes_are_refused(sizes: dict[str, int]) -> None:
    with pytest.raises(UserError, match="at least 1 scene"):
        generate_scenes(sizes)
