"""The built-in datasets as files, so that every verb can use them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from regard.data.builtin import grammar, shapes
from regard.data.builtin.stories import generate_stories
from regard.data.builtin.toy_tasks import TASKS, toy_pairs
from regard.data.images import save_image
from regard.errors import UserError
from regard.files import new_folder, write_atomically

NAMES = ("grammar", *TASKS, "shapes", "stories")
IMAGE_FOLDER = "pictures"
_ABOUT = "dataset.json"
_SIZES = {"train": 24_000, "valid": 500, "test": 1_000}
_MOST = 10_000_000

FileLines = dict[str, list[str]]
"""File name → its lines"""


@dataclass(frozen=True)
class DatasetOptions:
    size: int | None = None
    """Training examples; validation and test get a tenth of that at most, by default 500 and 1,000"""
    seed: int = 1
    direction: str = "en-fr"
    """Of the grammar"""
    lengths: tuple[int, int] = (3, 20)
    """Letters of a toy line, fewest and most"""
    test_lengths: tuple[int, int] | None = None
    """Of a test line; by default as in training"""

    def __post_init__(self) -> None:
        if self.size is not None and not 1 <= self.size <= _MOST:
            raise UserError(f"--size {self.size}: give a number from 1 to {_MOST:,}")
        for prefix, (low, high) in (("", self.lengths), ("test-", self.test_lengths or self.lengths)):
            if not 1 <= low <= high:
                raise UserError(f"--{prefix}min-len {low} --{prefix}max-len {high}: give 1 ≤ fewest ≤ most letters")

    def sizes(self, default: Mapping[str, int]) -> dict[str, int]:
        if self.size is None:
            return dict(default)
        few = max(1, self.size // 10)
        return {"train": self.size, "valid": min(few, default["valid"]), "test": min(few, default["test"])}


def write_dataset(name: str, out: Path, options: DatasetOptions) -> list[Path]:
    """Write the dataset into the folder `out` → its files (of the pictures, their folder).

    grammar: {train,valid,test}.{en,fr,align}; toys: {train,valid,test}.{src,tgt}; shapes: {train,valid,test}.tsv,
    regions.jsonl and pictures/; stories: {train,valid,test}.{text,summary}. The same options give the same bytes.
    """
    if name not in NAMES:
        raise UserError(f"dataset '{name}' is unknown; choose one of {', '.join(NAMES)}")
    scenes = shapes.generate_scenes(options.sizes(shapes.SIZES), options.seed) if name == "shapes" else {}
    if scenes:
        lines = _shape_lines(scenes)
    elif name == "grammar":
        lines = _grammar_lines(options)
    elif name == "stories":
        lines = _story_lines(options)
    else:
        lines = _toy_lines(name, options)
    pictures = {IMAGE_FOLDER} if scenes else set()
    _claim(out, {*lines, *pictures, _ABOUT})
    if scenes:
        with new_folder(out / IMAGE_FOLDER, replace=True) as folder:
            for path, scene in _named(scenes):
                save_image(scene.image, folder / Path(path).name)
    about = {"dataset": name, **asdict(options), "files": {file: len(rows) for file, rows in lines.items()}}
    for file, rows in lines.items():
        write_atomically(out / file, "".join(f"{row}\n" for row in rows).encode())
    write_atomically(out / _ABOUT, (json.dumps(about, indent=1) + "\n").encode())
    return [out / file for file in (*lines, *pictures, _ABOUT)]


def _claim(out: Path, names: set[str]) -> None:
    """Make the folder; nothing may be in it but what is going to be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        foreign = sorted(path.name for path in out.iterdir() if path.name not in names)
    except OSError as error:
        raise UserError(f"{out}: cannot be made a folder ({error.strerror})") from None
    if foreign:
        raise UserError(f"{out}: holds other files ({foreign[0]}); choose a new or empty folder")
    if (out / IMAGE_FOLDER).exists() and not (out / _ABOUT).is_file():
        raise UserError(f"{out}: holds pictures that are not of this dataset; choose a new or empty folder")


def _grammar_lines(options: DatasetOptions) -> FileLines:
    sizes = options.sizes(_SIZES)
    splits = grammar.generate_corpus(
        sizes["train"], sizes["valid"], sizes["test"], direction=options.direction, seed=options.seed
    )
    src, tgt = options.direction.split("-")
    lines: FileLines = {}
    for split, pairs in splits.items():
        lines[f"{split}.{src}"] = [pair.src for pair in pairs]
        lines[f"{split}.{tgt}"] = [pair.tgt for pair in pairs]
        lines[f"{split}.align"] = [" ".join(f"{i}-{j}" for i, j in pair.alignment) for pair in pairs]
    return lines


def _toy_lines(task: str, options: DatasetOptions) -> FileLines:
    """The test lines are not in training or validation, nor are those of validation in training."""
    lengths, taken, lines = options.lengths, set[str](), FileLines()
    sizes = options.sizes(_SIZES)
    for number, split in enumerate(("test", "valid", "train")):
        bounds = options.test_lengths or lengths if split == "test" else lengths
        # Twice as many as needed: some are among the lines of another split.
        drawn = toy_pairs(task, 2 * sizes[split], lengths=bounds, seed=3 * options.seed + number)
        pairs = [pair for pair in drawn if pair[0] not in taken][: sizes[split]]
        if len(pairs) < sizes[split]:
            raise UserError(f"--max-len {lengths[1]}: so short lines are too few for three splits; make them longer")
        taken |= {src for src, _ in pairs}
        lines[f"{split}.src"], lines[f"{split}.tgt"] = ([pair[side] for pair in pairs] for side in (0, 1))
    return {f"{split}.{side}": lines[f"{split}.{side}"] for split in _SIZES for side in ("src", "tgt")}


def _story_lines(options: DatasetOptions) -> FileLines:
    lines: FileLines = {}
    for split, told in generate_stories(options.sizes(_SIZES), options.seed).items():
        lines[f"{split}.text"] = [story.text for story in told]
        lines[f"{split}.summary"] = [story.summary for story in told]
    return lines


def _shape_lines(scenes: Mapping[str, Sequence[shapes.ShapeScene]]) -> FileLines:
    lines: FileLines = {f"{split}.tsv": [] for split in scenes}
    lines["regions.jsonl"] = []
    for path, scene in _named(scenes):
        split = Path(path).name.partition("-")[0]
        lines[f"{split}.tsv"].append(f"{path}\t{scene.caption}")
        if split == "test":
            regions = [{"word": word, "box": box} for word, box in scene.regions]
            row = {"picture": path, "caption": scene.caption, "regions": regions}
            lines["regions.jsonl"].append(json.dumps(row))
    return lines


def _named(scenes: Mapping[str, Sequence[shapes.ShapeScene]]) -> Iterator[tuple[str, shapes.ShapeScene]]:
    for split, rows in scenes.items():
        for i, scene in enumerate(rows):
            yield f"{IMAGE_FOLDER}/{split}-{i:05d}.png", scene
