"""A corpus prepared in shards is the corpus that training reads as a whole, however it was prepared."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

from regard.data.parallel_corpus import Corpus
from regard.data.prepared import filter_shards, job
from regard.data.prepared.corpus import PreparedCorpus
from regard.data.prepared.task_pool import OneProcess, TaskPool, open_pool
from regard.data.reading_progress import no_progress
from regard.errors import UserError
from regard.train.auto_recipe import AutoRecipe
from regard.train.prepare_data import PreparationOptions, prepare_data
from regard.train.recipe import Recipe, load_recipe
from regard.train.tasks.base import TrainingFiles
from regard.train.tasks.translation import TranslationTask
from tests.conftest import write_pairs

RECIPE = load_recipe(
    "tiny", settings=["tokenizer.vocab_size=400", "batch.max_tokens=60", "batch.tokens=256", "batch.workers=0"]
)


class Log:
    """A log that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, line: str) -> None:
        self.lines.append(line)


def make_pairs(n: int = 700) -> list[tuple[str, str]]:
    """Return pairs with duplicates, extreme lengths, many tokens and lines that cannot be used."""
    random = Random(3)
    words = [f"{a}{b}" for a in ("ka", "lo", "mi", "su", "té") for b in ("", "na", "ro", "sti", "—", ",")]

    def text(most: int = 12) -> str:
        return " ".join(random.choices(words, k=random.randint(1, most)))

    pairs = [(text(), text()) for _ in range(n)]
    for i in range(0, n, 9):
        pairs[i] = pairs[random.randrange(n)]
    for i in range(5, n, 40):
        pairs[i] = (text(3), text(3) + " x" * 80)
    for i in range(7, n, 60):
        pairs[i] = (text() * 9, text() * 9)
    pairs[0] = ("\ufeffthe first", "line")
    pairs[20], pairs[333], pairs[334] = ("", "empty"), ("carriage\r", "return"), ("odd\u2003space  twice", "a\tb")
    pairs[400] = ("x" * 6000, "long")
    return pairs


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    monkeypatch.setattr(job, "SHARD", 64)
    monkeypatch.setattr(filter_shards, "_PER_RANGE", 100)
    paths = write_pairs(tmp_path, "train", make_pairs())
    paths[1].write_bytes(paths[1].read_bytes().replace(b"empty", b"\xff\xfe"))
    return paths


def prepare(
    files: tuple[Path, ...], out: Path, pool: TaskPool | None = None, recipe: Recipe = RECIPE, **options: Any
) -> PreparedCorpus:
    out.mkdir(exist_ok=True)
    chosen = PreparationOptions(recipe, ("src", "tgt"), **options)
    return prepare_data([Corpus(files)], out, chosen, pool or OneProcess(), no_progress)


def content(folder: Path) -> dict[str, bytes]:
    names = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in names}


class RecordingPool(OneProcess):
    """Counts what is worked on, and is interrupted after some tasks."""

    def __init__(self, most: int = 1_000_000) -> None:
        self.done: list[tuple[str, str]] = []
        self.most = most

    def run(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            if len(self.done) >= self.most:
                raise KeyboardInterrupt
            self.done.append((function.__name__, getattr(item, "key", "")))
            yield function(item)


@pytest.mark.parametrize("with_valid", [False, True])
@pytest.mark.parametrize(
    "setting", ["data.drop_duplicates=true", "data.drop_duplicates=false", "tokenizer.joint=false"]
)
def test_a_prepared_corpus_is_the_corpus_that_is_read_as_a_whole(
    files: tuple[Path, Path], tmp_path: Path, setting: str, with_valid: bool
) -> None:
    tree = {**RECIPE.model_dump(mode="json")}
    section, _, option = setting.partition("=")[0].partition(".")
    tree[section] = {**tree[section], option: setting.endswith("true")}
    recipe = Recipe.parse(tree)
    valid = write_pairs(tmp_path, "valid", [*make_pairs()[30:60], ("new", "pair")]) if with_valid else None
    corpus = prepare(files, tmp_path / "out", recipe=recipe)
    assert len(corpus.pairs.shards) == 11
    logs, results = (Log(), Log()), []
    for log, train in zip(logs, (files, (tmp_path / "out",)), strict=True):
        with TranslationTask(TrainingFiles(recipe, train, valid)) as task:
            tokenizers = task.train_tokenizers()
            split = task.split(tokenizers, log)  # type: ignore[arg-type]
            data = task.load_data(tokenizers, tmp_path, Log())  # type: ignore[arg-type]
            results.append(
                (tokenizers, split, task.valid_texts(split), data.batches, task.count_words(), task.measure())
            )
    (tokenizers, split, texts, batches, words, facts), (others, other, *rest) = results
    assert tokenizers.fingerprint == others.fingerprint
    rows = np.random.default_rng(1).permutation(len(split.train))
    assert len(other.train) == len(split.train)
    for side in ("src", "tgt"):
        assert getattr(other.train, side)(rows).lists() == getattr(split.train, side)(rows).lists()
    assert all(np.array_equal(a, b) for a, b in zip(other.train.lengths(rows), split.train.lengths(rows), strict=True))
    assert np.array_equal(other.train_rows.all(), split.train_rows.all())
    assert logs[0].lines == logs[1].lines and any("also occur in the training data" in line for line in logs[0].lines)
    assert rest[0] == texts and rest[3] == facts
    assert rest[2].counts == words.counts and list(rest[2].counts) == list(words.counts)
    for i in range(len(batches.plan(1))):
        mine, theirs = batches.batch(1, i), rest[1].batch(1, i)
        assert torch.equal(mine.src, theirs.src) and torch.equal(mine.tgt_out, theirs.tgt_out)


def test_an_interrupted_preparation_goes_on_and_works_on_no_shard_twice(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    whole = RecordingPool()
    prepare(files, tmp_path / "whole", whole)
    expected = content(tmp_path / "whole")
    done: list[tuple[str, str]] = []
    for most in range(1, 40, 5):
        pool = RecordingPool(most)
        try:
            prepare(files, tmp_path / "cut", pool)
        except KeyboardInterrupt:
            assert not (tmp_path / "cut" / "manifest.json").exists()
        done += [task for task in pool.done if task[1]]
    assert content(tmp_path / "cut") == expected
    assert sorted(done) == sorted(task for task in whole.done if task[1]) and len(done) == 22
    again = RecordingPool()
    prepare(files, tmp_path / "cut", again)
    assert again.done == []


def test_any_number_of_processes_writes_the_same_files(files: tuple[Path, Path], tmp_path: Path) -> None:
    prepare(files, tmp_path / "one")
    with open_pool(2) as pool:
        prepare(files, tmp_path / "two", pool)
    assert content(tmp_path / "two") == content(tmp_path / "one")


def script(files: tuple[Path, Path], pool: str, before: str = "") -> str:
    """Return a program that prepares the files, in the folder that it is given, with that pool."""
    return f"""
import os, signal, sys
from pathlib import Path
from regard.data.parallel_corpus import Corpus
from regard.data.prepared import job
from regard.data.prepared.task_pool import open_pool
from regard.data.reading_progress import no_progress
from regard.train.prepare_data import PreparationOptions, prepare_data
from regard.train.recipe import Recipe

def die_once(path):
    if not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return path.name

job.SHARD = 64
out = Path(sys.argv[1])
options = PreparationOptions(Recipe.parse({RECIPE.model_dump(mode="json")!r}), ("src", "tgt"))
corpus = Corpus((Path({str(files[0])!r}), Path({str(files[1])!r})))
with open_pool({pool}) as pool:
    {before}
    prepare_data([corpus], out, options, pool, no_progress)
"""


def test_a_ray_cluster_writes_the_same_files_and_runs_a_task_again_whose_process_was_killed(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    pytest.importorskip("ray")
    prepare(files, tmp_path / "here")
    (tmp_path / "ray").mkdir()
    dies = "assert list(pool.run(die_once, [out.parent / 'a', out.parent / 'b'])) == ['a', 'b']"
    code = script(files, "ray_address='local'", dies)
    # In a process of its own, because Ray reads its access token only once.
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "ray"], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    assert content(tmp_path / "ray") == content(tmp_path / "here")


def test_killed_at_random_moments_it_ends_with_the_same_files(files: tuple[Path, Path], tmp_path: Path) -> None:
    prepare(files, tmp_path / "whole")
    code = script(files, "workers=1")
    (tmp_path / "killed").mkdir()
    delays = iter([0.02, 0.2])
    while True:
        process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "killed")])
        if (delay := next(delays, None)) is None:
            assert process.wait() == 0
            break
        while process.poll() is None and not (tmp_path / "killed" / "work").is_dir():
            time.sleep(0.01)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert content(tmp_path / "killed") == content(tmp_path / "whole")


def test_changed_input_is_worked_on_again(files: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        prepare(files, tmp_path / "out", RecordingPool(8))
    lines = files[0].read_text().splitlines()
    lines[100] = "changed"
    files[0].write_text("\n".join(lines[:650]) + "\n")
    files[1].write_bytes(b"\n".join(files[1].read_bytes().split(b"\n")[:650]) + b"\n")
    prepare(files, tmp_path / "out")
    prepare(files, tmp_path / "new")
    assert content(tmp_path / "out") == content(tmp_path / "new")
    files[0].write_text(files[0].read_text().replace("changed", "again"))
    with pytest.raises(UserError, match="was prepared from other files"):
        prepare(files, tmp_path / "out")


def test_training_with_other_options_is_refused(files: tuple[Path, Path], tmp_path: Path) -> None:
    prepare(files, tmp_path / "out")
    other = load_recipe("tiny", settings=["tokenizer.vocab_size=410", "batch.max_tokens=60"])
    task = TranslationTask(TrainingFiles(other, (tmp_path / "out",), None))
    with task, pytest.raises(UserError, match=r"prepared with tokenizer.vocab_size=400, but the recipe has 410"):
        task.split(task.train_tokenizers(), Log())  # type: ignore[arg-type]


def test_damage_is_found(files: tuple[Path, Path], tmp_path: Path) -> None:
    prepare(files, tmp_path / "out")
    path = tmp_path / "out" / "shards" / "00003" / "src.ids"
    ids = path.read_bytes()
    path.write_bytes(ids[:-2])
    with pytest.raises(UserError, match=r"src.ids: has .* bytes, but .* were written"):
        PreparedCorpus.open(tmp_path / "out", verify=False)
    path.write_bytes(ids[:-1] + bytes([ids[-1] ^ 1]))
    assert PreparedCorpus.open(tmp_path / "out", verify=False)
    with pytest.raises(UserError, match=r"src.ids: changed or damaged"):
        PreparedCorpus.open(tmp_path / "out")


def test_the_recipe_auto_chooses_the_vocabulary_by_the_corpus(files: tuple[Path, Path], tmp_path: Path) -> None:
    auto = AutoRecipe()
    corpus = prepare(files, tmp_path / "out", recipe=auto.load(), auto=auto)
    assert corpus.facts["options"]["tokenizer"]["vocab_size"] == 4_000


def test_the_tokenizer_of_a_model_can_be_used(files: tuple[Path, Path], tmp_path: Path) -> None:
    first = prepare(files, tmp_path / "out")
    second = prepare(
        files, tmp_path / "same", tokenizer=Path(__file__).parents[1] / "bundles" / "format-3" / "transformer"
    )
    assert second.tokenizers.fingerprint != first.tokenizers.fingerprint
