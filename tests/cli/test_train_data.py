"""`regard train --data`: several corpora in one run."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import regard as package
from regard.data.builtin.toy_tasks import toy_pairs
from regard.text.tokenizer import TokenizerPair
from tests.cli.command import StartedCommand, regard
from tests.conftest import write_pairs
from tests.train.test_resume import digest, wait_for_step

SETTINGS = (
    *("tokenizer.vocab_size=290", "tokenizer.dropout=0.1", "model.d_model=16", "model.d_ff=32", "model.n_layers=1"),
    *("batch.tokens=512", "train.steps=45", "train.save_every=7", "train.log_every=5", "train.accumulate=2"),
    *("valid.every=30", "valid.sentences=20", "valid.samples=3"),
)
OPTIONS = ("--recipe", "tiny", *(word for setting in SETTINGS for word in ("--set", setting)))
STAGES = """
datasets:
  clean: [clean.src, clean.tgt]
  dirty: dirty.tsv
stages: [start, end]
start: [clean 0.8, dirty 0.2, until clean 1]
end:
  mix: [clean 0.3, dirty 0.7, until dirty inf]
  modifiers:
    - Typos: 0.3
    - Noise: 0.2
modifiers:
  - UpperCase: 0.1
seed: 1111
trainer: /usr/bin/cat
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two corpora."""
    folder = tmp_path_factory.mktemp("mixture")
    write_pairs(folder, "clean", toy_pairs("reverse", 400, seed=1, lengths=(3, 8), n_letters=8))
    dirty = toy_pairs("copy", 200, seed=2, lengths=(3, 8), n_letters=8)
    (folder / "dirty.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in dirty))
    return folder


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_run_killed_in_a_later_stage_and_resumed_gives_the_same_bits(folder: Path) -> None:
    data = write(folder, "stages.yaml", STAGES)
    whole, killed = folder / "whole", folder / "killed"
    done = regard("train", "--data", data, "--out", whole, *OPTIONS)
    assert done.returncode == 0, done.stderr
    assert "stages.yaml: trainer ignored" in done.stderr
    assert "stage start: epochs 1 to 1, " in done.stderr and "stage end: from epoch 2 on, " in done.stderr

    running = StartedCommand("train", "--data", data, "--out", killed, *OPTIONS, "--resume")
    wait_for_step(killed, 30)
    running.kill()
    rows = [json.loads(line) for line in (killed / "metrics.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in rows if row.get("step") == 25 and "epoch" in row] > [1], "in the second stage"
    again = regard("train", "--data", data, "--out", killed, *OPTIONS, "--resume")
    assert again.returncode == 0 and "resumed from" in again.stderr, again.stderr
    assert digest(killed) == digest(whole)

    write(folder, "stages.yaml", STAGES.replace("Noise: 0.2", "Noise: 0.3"))
    other = regard("train", "--data", data, "--out", killed, *OPTIONS, "--resume")
    assert other.returncode == 2 and "data differ from those of the first run" in other.stderr


def test_one_corpus_in_a_mixture_trains_the_model_of_the_corpus_alone(folder: Path) -> None:
    data = write(folder, "one.yaml", "corpora: [{files: [clean.src, clean.tgt], weight: 1}]")
    alone, mixed = folder / "alone", folder / "mixed"
    short = ("--set", "train.steps=20")
    for out, files in ((alone, [folder / "clean.src", folder / "clean.tgt"]), (mixed, ["--data", data])):
        done = regard("train", *files, "--out", out, *OPTIONS, *short)
        assert done.returncode == 0, done.stderr
    assert digest(alone) == digest(mixed)


@pytest.mark.parametrize(
    "text",
    [
        "datasets: {one: dirty.tsv}",
        "corpora: [{files: dirty.tsv, name: one, weight: 2}, {files: [clean.src, clean.tgt], weight: 0}]",
        "datasets: {one: dirty.tsv}\nstages: [only]\nonly: [one 1, until one inf]",
    ],
)
def test_a_corpus_that_is_used_alone_may_have_a_name(text: str, folder: Path) -> None:
    out = folder / f"named-{len(text)}"
    done = regard(
        "train", "--data", write(folder, "named.yaml", text), "--out", out, *OPTIONS, "--set", "train.steps=2"
    )
    assert done.returncode == 0, done.stderr


def test_tags_are_symbols_and_no_words_and_untagged_pairs_are_held_out(folder: Path) -> None:
    text = """
    corpora:
      - files: dirty.tsv
        weight: 3
        tag: "<copy>"
      - files: [clean.src, clean.tgt]
        weight: 1
    modifiers: [UpperCase: 0.5]
    """
    out, data = folder / "tagged", write(folder, "tagged.yaml", text)
    settings = {"tokenizer.vocab_size": 290, "model.d_model": 16, "train.steps": 2, "batch.tokens": 512}
    package.train_model(data=data, out=out, recipe="tiny", options=settings, device="cpu")
    tokenizer = TokenizerPair.load(out / "tokenizer").src
    [ids] = tokenizer.encode(["<copy> a b"])
    assert len(ids) == 3 and tokenizer.decode(ids) == "<copy> a b"
    words = [line.split("\t")[0] for line in (out / "words.tsv").read_text().splitlines()]
    assert set(words) == set("abcdefgh")
    examples = json.loads((out / "config.json").read_text())["examples"]
    assert examples and not any("<copy>" in example for example in examples)


def test_corpora_with_tags_can_have_stages_and_a_stage_that_is_not_reached_is_told(folder: Path) -> None:
    text = """
    corpora:
      - {name: clean, files: [clean.src, clean.tgt], tag: <a>}
      - {name: dirty, files: dirty.tsv, tag: <b>}
      - {name: other, files: dirty.tsv}
    stages: [one, two]
    one: [clean 1, dirty 0.1, until clean 9]
    two: [clean 1, dirty 1, other 0, until dirty 1]
    """
    out, data = folder / "staged", write(folder, "staged.yaml", text)
    done = regard("train", "--data", data, "--out", out, *OPTIONS, "--set", "train.steps=2", "--set", "valid.every=2")
    assert done.returncode == 0, done.stderr
    assert "other: not used, as it has no share" in done.stderr and "training data other" not in done.stderr
    assert "warning: stage two would begin after more than" in done.stderr
    examples = json.loads((out / "config.json").read_text())["examples"]
    assert examples and all(example[:4] in ("<a> ", "<b> ") for example in examples), "there are only tagged sources"


def test_auto_chooses_by_the_whole_mixture(folder: Path) -> None:
    data = write(folder, "auto.yaml", "corpora: [{files: dirty.tsv, tag: <x>}, {files: [clean.src, clean.tgt]}]")
    small = ("model.d_model=16", "model.n_layers=1", "model.d_ff=16", "train.steps=2", "tokenizer.vocab_size=290")
    settings = [word for setting in small for word in ("--set", setting)]
    command = ("train", "--data", data, "--out", folder / "auto", "--minutes", 1, *settings)
    done = regard(*command)
    assert done.returncode == 0, done.stderr
    pairs = sum(len(set(toy_pairs(task, n, seed=seed, lengths=(3, 8), n_letters=8))) for task, n, seed in CORPORA)
    assert f"auto: {pairs:,} pairs" in done.stderr and "training data dirty.tsv: " in done.stderr
    assert regard(*command, "--resume").returncode == 0


CORPORA = (("reverse", 400, 1), ("copy", 200, 2))


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("corpora: [{files: none.tsv}]", [], "none.tsv: no such file"),
        ("corpora: [{files: clean.src}]", [], "give two line-aligned files, or one that ends in .tsv"),
        ("corpora: [{weight: 1}]", [], "data.yaml: corpus 1: 'files' is missing"),
        ('corpora: [{files: dirty.tsv, tag: "a\\0"}]', [], "a tag is one word without spaces and control characters"),
        ("- dirty.tsv", [], "data.yaml: must be a mapping of keys to values"),
        ("corpora: [{files: dirty.tsv, weight: 0}]", [], "data.yaml: the weight of every corpus is 0"),
        ("corpora: [{files: dirty.tsv}]", ["dirty.tsv"], "name either the training files or, with --data,"),
        ("corpora: [{files: dirty.tsv}]", ["--alignments", "dirty.tsv"], "--alignments are for one corpus"),
        ("corpora: [{files: dirty.tsv}]", ["--recipe", "classifier"], "--data is for translation"),
        ("corpora: [{files: dirty.tsv}, {files: empty.tsv}]", [], "no usable pair of sentences: empty.tsv"),
        (
            "corpora: [{files: dirty.tsv}]\nmodifiers: [Noise: 0.1]",
            ["--recipe", "tiny", "--set", "tokenizer.kind=char"],
            "modifier Noise needs a tokenizer that knows every character",
        ),
    ],
)
def test_mistakes_take_one_line(
    text: str,
    arguments: list[str],
    message: str,
    folder: Path,
    error_line: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (folder / "empty.tsv").write_text("a\n")
    monkeypatch.chdir(folder)
    out = folder / "failed"
    assert message in error_line("train", *arguments, "--data", write(folder, "data.yaml", text), "--out", out)
    assert not (out / "model.safetensors").exists()
    assert "name either the training files" in error_line("train", "--out", out)
