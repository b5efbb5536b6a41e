"""Examples in docstrings run, and the paths that the documentation names exist."""

import doctest
import importlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard import models
from regard.bundle import Bundle, TaskName
from regard.data.images import save_image
from regard.search.decode import DecodeConfig
from regard.text.list_tokenizer import ListTokenizer
from regard.text.tokenizer import TokenizerConfig, TokenizerPair, train_tokenizer

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "regard"

PUBLIC = [name for name in regard.__all__ if name not in ("UserError", "DatasetOptions", "__version__", "models")]
PUBLIC += ["models.build"]
PENDING: set[str] = set()
"""Public names that have no example yet"""

WITH_EXAMPLES = sorted(path for path in PACKAGE.rglob("*.py") if ">>> " in path.read_text(encoding="utf-8"))

# ---- Examples in docstrings ----


@pytest.fixture(scope="session")
def example_names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Names that every example may use: `regard`, directories of tiny untrained models, and an image file."""
    folder = tmp_path_factory.mktemp("examples")
    letters = train_tokenizer(["abcdefgh a b c d e f g h"], TokenizerConfig(kind="char", vocab_size=40))
    labels = ListTokenizer("word", ["good", "bad"])
    stack = {"kind": "transformer", "d_model": 16, "n_heads": 2, "d_ff": 16, "n_layers": 2}
    image = {**stack, "kind": "image", "size": 16, "patch": 4}
    encoder_only = {"kind": "encoder", "encoder": stack, "head": "label"}
    captioner = {"kind": "encoder-decoder", "encoder": image, "decoder": stack}
    save_image(np.random.default_rng(0).integers(0, 256, (16, 16, 3)).astype(np.uint8), folder / "image.png")
    return {
        "regard": regard,
        "new_dir": folder,
        "translator_dir": untrained(folder / "translator", "translate", stack, letters, letters),
        "generator_dir": untrained(
            folder / "generator", "text", {"kind": "decoder", "decoder": stack}, letters, letters
        ),
        "classifier_dir": untrained(folder / "classifier", "classify", encoder_only, letters, labels),
        "captioner_dir": untrained(folder / "captioner", "caption", captioner, letters, letters),
        "image_file": folder / "image.png",
    }


def untrained(folder: Path, task: TaskName, options: dict[str, Any], src: Any, tgt: Any) -> str:
    torch.manual_seed(0)
    config = models.parse_config(options)
    model = models.build(config, tgt.size, src.size if src is not tgt else None).eval()
    decode = DecodeConfig(beam=2, max_len=6)
    Bundle(model, config, TokenizerPair(src, tgt), ("en", "fr"), decode, task, 16).save(folder, "an untrained model")
    return str(folder)


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_examples_in_docstrings_run(path: Path, example_names: dict[str, Any]) -> None:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    module = importlib.import_module(".".join(part for part in parts if part != "__init__"))
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    report: list[str] = []
    for test in doctest.DocTestFinder().find(module, extraglobs=example_names):
        runner.run(test, out=report.append)
    assert runner.tries and not runner.failures, "".join(report)


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_have_an_example(name: str) -> None:
    thing: Any = regard
    for part in name.split("."):
        thing = getattr(thing, part)
    assert (">>> " in (thing.__doc__ or "")) != (name in PENDING)


# ---- Paths in the documentation ----

PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)*(?:\.py|/)")


@pytest.mark.parametrize("name", ["README.md", "docs/architecture.md", "docs/tour.md"])
def test_named_paths_exist(name: str) -> None:
    """Every path that the page names exists. What counts as a path, and where it is looked for:

    - In running text, a path is anything in backticks that ends in `.py` or `/`: `search/beam.py`, `train/tasks/`. It
      is relative to the root of the repository or to src/regard. Paths that start with `DIR/` or `runs/` are those of
      a model directory, and are not checked.
    - In a row of a table, they may also be relative to a folder that the first cell names: | `nn/` | `masks.py` |
    - In a tree listing (a fenced block without a language), every word that ends in `.py` or `/` is a path. A line that
      starts with a folder, `text/`, opens it: the paths on this line and on all lines that are indented further are
      relative to that folder, to one of the folders around it, to src/regard or to the root.
    - Fenced blocks with a language (```sh) are not checked.
    """
    text, listings = split_fences((ROOT / name).read_text(encoding="utf-8"))
    missing = [path for path, folders in paths_in_text(text) if not exists(path, folders)]
    for listing in listings:
        missing += [path for path, folders in paths_in_tree(listing) if not exists(path, folders)]
    assert not missing


def split_fences(page: str) -> tuple[str, list[str]]:
    """Return the running text, and the fenced blocks that have no language."""
    listings = []

    def take(match: re.Match[str]) -> str:
        if not match[1].strip():
            listings.append(match[2])
        return ""

    return re.sub(r"^```([^\n]*)\n(.*?)^```", take, page, flags=re.DOTALL | re.MULTILINE), listings


def paths_in_text(text: str) -> list[tuple[str, list[Path]]]:
    """Return each path in backticks with the folder of its table row, which it may be relative to."""
    paths: list[tuple[str, list[Path]]] = []
    for line in text.splitlines():
        row = re.match(r"\| `([\w/.-]+/)` \|", line)
        folders = [PACKAGE / row[1]] if row else []
        quoted = (match[1] for match in re.finditer(r"`([^`]+)`", line))
        paths += [(path, folders) for path in quoted if PATH.fullmatch(path)]
    return [(path, folders) for path, folders in paths if not path.startswith(("DIR/", "runs/"))]


def paths_in_tree(listing: str) -> list[tuple[str, list[Path]]]:
    """Return each path of a tree listing with the folders around it, which it may be relative to."""
    paths: list[tuple[str, list[Path]]] = []
    opened: list[tuple[int, Path]] = []  # (indentation, folder) of the folders around the line
    for line in listing.splitlines():
        if not line.strip():
            continue
        indentation = len(line) - len(line.lstrip())
        opened = [(outer, folder) for outer, folder in opened if outer < indentation]
        words = [word.strip("(),;:`") for word in line.split()]
        around = [folder for _, folder in opened]
        if words[0].endswith("/") and PATH.fullmatch(words[0]):
            paths.append((words.pop(0), around))
            opened.append((indentation, around[-1] / paths[-1][0] if around else Path(paths[-1][0])))
        around = [folder for _, folder in opened]
        paths += [(word, around) for word in words if PATH.fullmatch(word)]
    return paths


def exists(path: str, folders: list[Path]) -> bool:
    return any((start / path).exists() for start in (ROOT, PACKAGE, *(ROOT / folder for folder in folders)))


def test_the_check_of_paths_finds_wrong_ones() -> None:
    page = """Read `nn/attention.py`, `Bundle.load`, `DIR/tokenizer/` and `src/regard/text/`.
These are wrong: `nn/look.py`, `vocab.py`.

| folder | files |
|---|---|
| `nn/` | `masks.py`, `look.py` |

```sh
python no/such/file.py
```
```
src/regard/
  text/      vocab.py (special ids), words.py,
             missing.py
    inner/   nothing
  nn/        masks.py     text/ again
```
"""
    text, [listing] = split_fences(page)
    wrong = [path for path, folders in paths_in_text(text) if not exists(path, folders)]
    assert wrong == ["nn/look.py", "vocab.py", "look.py"]
    wrong = [path for path, folders in paths_in_tree(listing) if not exists(path, folders)]
    assert wrong == ["missing.py", "inner/"]


@pytest.mark.parametrize("path", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]), ids=lambda path: path.name)
def test_links_between_pages_lead_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text(encoding="utf-8"))
    missing = [target for target in targets if "://" not in target and not (path.parent / target).exists()]
    assert not missing
