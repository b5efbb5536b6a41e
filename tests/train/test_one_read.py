"""Training reads each data file once, and finds the tokenised corpus again by content."""

import gzip
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from regard.data.builtin.shapes import generate_scenes
from regard.data.images import save_image
from regard.data.mixture import CorpusConfig, Mixture
from regard.errors import UserError
from regard.train.recipe import load_recipe
from regard.train.run import Run, train
from tests.conftest import write_pairs

STEPS = ("train.steps=2", "valid.every=2", "batch.tokens=256", "batch.workers=0", "valid.sentences=4")
PAIRS = [(f"the {a} sees {b}", f"le {a} voit {b}") for a in ("cat", "dog", "cow", "hen") for b in "abcdefghijklmnop"]

_opened: Counter[str] | None = None


def _count_open(event: str, arguments: tuple[Any, ...]) -> None:
    if _opened is not None and event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
        _opened[str(Path(os.fsdecode(arguments[0])).absolute())] += 1


sys.addaudithook(_count_open)  # a hook cannot be removed, so it does nothing unless a test counts


@contextmanager
def counted_opens(files: set[Path]) -> Iterator[Counter[str]]:
    """Count how often each of the files is opened in the block, by whatever function."""
    global _opened
    counts: Counter[str] = Counter()
    _opened = Counter()
    try:
        yield counts
    finally:
        counts.update({path.name: _opened[str(path.absolute())] for path in files})
        _opened = None


def pairs_with_validation_and_alignments(folder: Path) -> Run:
    links = folder / "links"
    links.write_text("0-0 1-1 2-2 3-3\n" * len(PAIRS))
    recipe = load_recipe("tiny", settings=(*STEPS, "tokenizer.kind=word", "model.d_model=16", "model.d_ff=16"))
    train_files, valid_files = write_pairs(folder, "train", PAIRS), write_pairs(folder, "valid", PAIRS[:8])
    return Run(recipe, train_files, valid_files, folder / "run", alignments=links, device="cpu")


def held_out_pairs_in_gzip(folder: Path) -> Run:
    recipe = load_recipe("tiny", settings=(*STEPS, "tokenizer.vocab_size=300", "model.d_model=16", "model.d_ff=16"))
    paths = []
    for i in (0, 1):
        path = folder / f"pairs{i}.gz"
        path.write_bytes(gzip.compress("".join(f"{pair[i]}\n" for pair in PAIRS).encode()))
        paths.append(path)
    return Run(recipe, tuple(paths), None, folder / "run", device="cpu")


def several_corpora(folder: Path) -> Run:
    recipe = load_recipe("tiny", settings=(*STEPS, "tokenizer.vocab_size=300", "model.d_model=16", "model.d_ff=16"))
    (folder / "b.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in PAIRS[:40]))
    configs = ({"files": write_pairs(folder, "a", PAIRS), "weight": 2}, {"files": folder / "b.tsv", "tag": "<b>"})
    mixture = Mixture(corpora=tuple(map(CorpusConfig.parse, configs)))
    return Run(recipe, (), None, folder / "run", device="cpu", mixture=mixture)


def labels(folder: Path) -> Run:
    path = folder / "labels.tsv"
    path.write_text("".join(f"{src}\t{src.split()[1]}\n" for src, _ in PAIRS))
    small = [f"model.encoder.{option}" for option in ("n_layers=1", "d_model=16", "d_ff=16")]
    recipe = load_recipe("classifier", settings=(*STEPS, *small, "tokenizer.kind=word"))
    return Run(recipe, (path,), None, folder / "run", device="cpu")


def text(folder: Path) -> Run:
    paths = [folder / name for name in ("a.txt", "b.txt", "valid.txt")]
    for path in paths:
        path.write_text("".join(f"{src}\n" for src, _ in PAIRS) * 4)
    small = [f"model.decoder.{option}" for option in ("n_layers=1", "d_model=16", "d_ff=16")]
    recipe = load_recipe("gpt-cpu", settings=(*STEPS, *small))
    return Run(recipe, tuple(paths[:2]), (paths[2],), folder / "run", device="cpu")


def held_out_masked_text(folder: Path) -> Run:
    path = folder / "text.txt"
    path.write_text("".join(f"{src}\n" for src, _ in PAIRS) * 8)
    small = [f"model.encoder.{option}" for option in ("n_layers=1", "d_model=16", "d_ff=16")]
    recipe = load_recipe("bert", settings=(*STEPS, *small, "tokenizer.vocab_size=300", "batch.context=16"))
    return Run(recipe, (path,), None, folder / "run", device="cpu")


def captions(folder: Path) -> Run:
    pytest.importorskip("PIL")
    tsvs = {}
    for split, scenes in generate_scenes({"train": 24, "valid": 4}).items():
        for i, scene in enumerate(scenes):
            save_image(scene.image, folder / f"{split}{i}.png")
        tsvs[split] = folder / f"{split}.tsv"
        tsvs[split].write_text("".join(f"{split}{i}.png\t{scene.caption}\n" for i, scene in enumerate(scenes)))
    small = [f"model.{side}.{option}" for side in ("encoder", "decoder") for option in ("n_layers=1", "d_ff=16")]
    recipe = load_recipe("caption", settings=(*STEPS, *small))
    return Run(recipe, (tsvs["train"],), (tsvs["valid"],), folder / "run", device="cpu")


RUNS = [
    *(pairs_with_validation_and_alignments, held_out_pairs_in_gzip, several_corpora),
    *(labels, text, held_out_masked_text, captions),
]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("make_run", RUNS, ids=lambda function: function.__name__)
def test_each_data_file_is_read_once(make_run: Callable[[Path], Run], cache: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    run = make_run(data)
    files = {path for path in data.iterdir() if path.is_file()}
    with counted_opens(files) as counts:
        train(run)
    assert counts == dict.fromkeys((path.name for path in files), 1)

    stores = sorted(cache.glob("corpora/*"))
    for again in (replace(run, resume=True), replace(run, out=tmp_path / "another run")):
        with counted_opens(files) as counts:
            train(again)
        assert counts == dict.fromkeys((path.name for path in files), 1)
        assert sorted(cache.glob("corpora/*")) == stores, "the tokenised corpus is found, not built again"


@pytest.mark.parametrize("make_run", RUNS, ids=lambda function: function.__name__)
def test_changed_content_is_noticed_even_if_size_and_time_are_the_same(
    make_run: Callable[[Path], Run], cache: Path, tmp_path: Path
) -> None:
    run = make_run(tmp_path)
    train(run)
    path = run.train[0] if run.mixture is None else run.mixture.corpora[1].files[0]
    before = path.stat()
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    changed = bytearray(content)
    place = content.rindex(b"a")
    changed[place] = ord("o")
    path.write_bytes(gzip.compress(bytes(changed)) if path.suffix == ".gz" else bytes(changed))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(UserError, match="data differ"):
        train(replace(run, resume=True))
