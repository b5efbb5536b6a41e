"""Write the built-in datasets as files, as every command expects them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from regard.data.builtin import shapes
from regard.data.builtin.grammar_corpus import generate_corpus
from regard.data.builtin.stories import generate_stories
from regard.data.builtin.toy_tasks import TASKS, toy_pairs
from regard.data.images import save_image
from regard.errors import UserError
from regard.files import new_folder, write_atomically

NAMES = ("grammar", *TASKS, "shapes", "stories")
IMAGE_FOLDER = "pictures"
_METADATA = "dataset.json"
_SIZES = {"train": 24_000, "valid": 500, "test": 1_000}
_MAX_SIZE = 10_000_000
_MAX_LETTERS = 10_000

FileLines = dict[str, list[str]]
"""File name → lines."""


@dataclass(frozen=True)
class DatasetOptions:
    size: int | None = None
    """Training examples. Validation and test have at most a tenth of this, and at most their default sizes."""
    seed: int = 1
    direction: str = "en-fr"
    """Grammar: en-fr or fr-en."""
    lengths: tuple[int, int] = (3, 20)
    """Toy tasks: minimum and maximum number of letters per line."""
    test_lengths: tuple[int, int] | None = None
    """Toy tasks: the same for test lines; by default as in training."""

    def __post_init__(self) -> None:
        if self.size is not None and not 1 <= self.size <= _MAX_SIZE:
            raise UserError(f"--size {self.size}: give a number from 1 to {_MAX_SIZE:,}")
        for prefix, (low, high) in (("", self.lengths), ("test-", self.test_lengths or self.lengths)):
            if not 1 <= low <= high <= _MAX_LETTERS:
                names = f"--{prefix}min-len {low} --{prefix}max-len {high}"
                raise UserError(f"{names}: give a minimum from 1 and a maximum from there to {_MAX_LETTERS:,}")

    def sizes(self, default: Mapping[str, int]) -> dict[str, int]:
        """Return the number of examples per split."""
        if self.size is None:
            return dict(default)
        tenth = max(1, self.size // 10)
        return {"train": self.size, "valid": min(tenth, default["valid"]), "test": min(tenth, default["test"])}


def write_dataset(name: str, out: str | Path, options: DatasetOptions | None = None) -> list[Path]:
    """Write a dataset into the folder `out` and return the paths written (one path for the folder of images).

    grammar: {train,valid,test}.{en,fr,align}; toy tasks: {train,valid,test}.{src,tgt}; shapes: {train,valid,test}.tsv,
    regions.jsonl and pictures/; stories: {train,valid,test}.{text,summary}. The same options give the same bytes.

    >>> from tempfile import mkdtemp
    >>> paths = regard.write_dataset("grammar", mkdtemp(), regard.DatasetOptions(size=100))
    >>> [path.name for path in paths[:3]]
    ['train.en', 'train.fr', 'train.align']
    """
    if name not in NAMES:
        raise UserError(f"dataset '{name}' is unknown; choose one of {', '.join(NAMES)}")
    out, options = Path(out), options or DatasetOptions()
    scenes = shapes.generate_scenes(options.sizes(shapes.SIZES), options.seed) if name == "shapes" else {}
    if scenes:
        lines = _shape_lines(scenes)
    elif name == "grammar":
        lines = _grammar_lines(options)
    elif name == "stories":
        lines = _story_lines(options)
    else:
        lines = _toy_lines(name, options)
    folders = {IMAGE_FOLDER} if scenes else set()
    _prepare_folder(out, {*lines, *folders, _METADATA})
    if scenes:
        with new_folder(out / IMAGE_FOLDER, replace=True) as folder:
            for path, scene in _with_paths(scenes):
                save_image(scene.image, folder / Path(path).name)
    metadata = {"dataset": name, **asdict(options), "files": {file: len(rows) for file, rows in lines.items()}}
    for file, rows in lines.items():
        write_atomically(out / file, "".join(f"{row}\n" for row in rows).encode())
    write_atomically(out / _METADATA, (json.dumps(metadata, indent=1) + "\n").encode())
    return [out / name for name in (*lines, *folders, _METADATA)]


def _prepare_folder(out: Path, names: set[str]) -> None:
    """Create the folder. If it exists, it may contain only files that are about to be replaced."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        foreign = sorted(path.name for path in out.iterdir() if path.name not in names)
    except OSError as error:
        raise UserError(f"{out}: cannot create the folder ({error.strerror})") from None
    if foreign:
        raise UserError(f"{out}: contains other files ({foreign[0]}); choose a new or empty folder")
    if (out / IMAGE_FOLDER).exists() and not (out / _METADATA).is_file():
        raise UserError(
            f"{out}: contains a folder {IMAGE_FOLDER} that is not part of this dataset; choose a new or empty folder"
        )


def _grammar_lines(options: DatasetOptions) -> FileLines:
    sizes = options.sizes(_SIZES)
    splits = generate_corpus(
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
    """No source line is in two splits."""
    lengths, used, lines = options.lengths, set[str](), FileLines()
    sizes = options.sizes(_SIZES)
    for number, split in enumerate(("test", "valid", "train")):
        bounds = options.test_lengths or lengths if split == "test" else lengths
        # Twice as many as needed, because lines that another split already has are dropped.
        drawn = toy_pairs(task, 2 * sizes[split], lengths=bounds, seed=3 * options.seed + number)
        pairs = [pair for pair in drawn if pair[0] not in used][: sizes[split]]
        if len(pairs) < sizes[split]:
            raise UserError(f"--max-len {lengths[1]}: not enough different lines for three splits; make them longer")
        used |= {src for src, _ in pairs}
        lines[f"{split}.src"], lines[f"{split}.tgt"] = ([pair[side] for pair in pairs] for side in (0, 1))
    return {f"{split}.{side}": lines[f"{split}.{side}"] for split in _SIZES for side in ("src", "tgt")}


def _story_lines(options: DatasetOptions) -> FileLines:
    lines: FileLines = {}
    for split, stories in generate_stories(options.sizes(_SIZES), options.seed).items():
        lines[f"{split}.text"] = [story.text for story in stories]
        lines[f"{split}.summary"] = [story.summary for story in stories]
    return lines


def _shape_lines(scenes: Mapping[str, Sequence[shapes.ShapeScene]]) -> FileLines:
    lines: FileLines = {f"{split}.tsv": [] for split in scenes}
    lines["regions.jsonl"] = []
    for path, scene in _with_paths(scenes):
        split = Path(path).name.partition("-")[0]
        lines[f"{split}.tsv"].append(f"{path}\t{scene.caption}")
        if split == "test":
            regions = [{"word": word, "box": box} for word, box in scene.regions]
            row = {"picture": path, "caption": scene.caption, "regions": regions}
            lines["regions.jsonl"].append(json.dumps(row))
    return lines


def _with_paths(splits: Mapping[str, Sequence[shapes.ShapeScene]]) -> Iterator[tuple[str, shapes.ShapeScene]]:
    """Yield each scene with the path of its image, relative to the dataset's folder."""
    for split, scenes in splits.items():
        for i, scene in enumerate(scenes):
            yield f"{IMAGE_FOLDER}/{split}-{i:05d}.png", scene
