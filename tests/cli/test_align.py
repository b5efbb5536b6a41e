"""`regard align`, and `translate` and `evaluate` with alignments, on a model trained with --alignments."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import regard as library
from tests.cli.command import regard, toy_files, train_arguments


def gold_alignments(sources: Path) -> str:
    """Return the alignments of reversed lines: word i becomes word n - 1 - i."""
    counts = [len(line.split()) for line in sources.read_text().splitlines()]
    return "".join(" ".join(f"{i}-{n - 1 - i}" for i in range(n)) + "\n" for n in counts)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("guided")
    files = toy_files(folder)
    for source in (files[0], files[2]):
        source.with_suffix(".align").write_text(gold_alignments(source))
    return files


@pytest.fixture(scope="module")
def run(files: list[Path]) -> Path:
    out = files[0].parent / "run"
    links = files[0].with_suffix(".align")
    done = regard(*train_arguments(files, out, "train.steps=450", "valid.every=450"), "--alignments", links)
    assert done.returncode == 0, done.stderr
    return out


def test_a_model_trained_with_alignments_reproduces_them(run: Path, files: list[Path]) -> None:
    assert json.loads((run / "config.json").read_text())["alignment"] == {"layer": 0, "head": 0, "threshold": 0.25}
    gold = files[2].with_suffix(".align")
    done = regard("evaluate", run, *files[2:], "--alignments", gold, "--json")
    scores = json.loads(done.stdout)["alignment"]
    assert scores["aer"] < 0.05 and scores["precision"] > 0.95 and scores["recall"] > 0.95
    lines = regard("align", run, *files[2:]).stdout.splitlines()
    references = gold.read_text().splitlines()
    assert len(lines) == len(references)
    same = [sorted(a.split()) == sorted(b.split()) for a, b in zip(lines, references, strict=True)]
    assert sum(same) > 0.9 * len(references)


def test_translate_adds_alignments_and_places_markup(run: Path) -> None:
    output = regard("translate", run, "--text", "a b c d", "--alignment").stdout
    assert output == "d c b a ||| 0-3 1-2 2-1 3-0\n"
    marked = regard("translate", run, "--text", "a <b>b c</b> {x} d", "--markup").stdout
    assert marked == "{x} d <b>c b</b> a\n"
    [row] = map(json.loads, regard("translate", run, "--text", "a b", "--alignment", "--json").stdout.splitlines())
    assert row["hypotheses"][0]["alignment"] == [[0, 1], [1, 0]]
    assert library.load(run).translate(["a b"], attention=True)[0].alignment == ((0, 1), (1, 0))
    copied = regard("translate", run, "--text", "a ž c", "--copy-unknown").stdout.split()
    assert "ž" in copied


def test_choose_finds_the_best_head_and_stores_it(run: Path, files: list[Path]) -> None:
    gold = files[2].with_suffix(".align")
    lines = regard("align", run, *files[2:], "--choose", gold).stdout.splitlines()
    rates = [float(line.split("AER")[1].split()[0]) for line in lines[:-1]]
    assert rates == sorted(rates) and rates[0] < 0.05
    stored = json.loads((run / "config.json").read_text())["alignment"]
    named = "all layers" if stored["layer"] is None else f"layer {stored['layer']},"
    assert named in lines[-1] and lines[0].startswith(named)
    assert library.load(run).aligner.model_dump() == stored  # type: ignore[union-attr]
    both = regard("align", run, *files[2:], "--reverse", run).stdout.splitlines()  # reversing is its own reverse
    alone = regard("align", run, *files[2:]).stdout.splitlines()
    assert all(set(b.split()) <= set(a.split()) for a, b in zip(alone, both, strict=True))


def test_errors_are_one_line(run: Path, files: list[Path], tmp_path: Path, error_line: Callable[..., str]) -> None:
    (tmp_path / "bad").write_text("0-0\n")
    cases = {
        "lines for 4,000 pairs": [*train_arguments(files, tmp_path / "x"), "--alignments", tmp_path / "bad"],
        "no such file": [*train_arguments(files, tmp_path / "y"), "--alignments", tmp_path / "none"],
        "with an encoder": [
            *("train", *files[:2], "--recipe", "concat", "--out", tmp_path / "z"),
            *("--alignments", tmp_path / "bad"),
        ],
        "no head 9": ["align", run, *files[2:], "--head", 9],
        "1 lines for 100 pairs": ["evaluate", run, *files[2:], "--alignments", tmp_path / "bad"],
        "give two line-aligned files, or one": ["evaluate", run, files[2], "--alignments", tmp_path / "bad"],
    }
    for message, arguments in cases.items():
        assert message in error_line(*arguments)


def test_a_pair_that_is_too_long_is_left_empty_and_the_others_go_on(toy_run: Path, tmp_path: Path) -> None:
    src, tgt = tmp_path / "src", tmp_path / "tgt"
    src.write_text("a b\n" + "a " * 2000 + "\na\nb\n")
    tgt.write_text("b a\nb\n" + "x" * 1_000_000 + "\nb\n")
    done = regard("align", toy_run, src, tgt, timeout=60)
    assert done.returncode == 2 and [bool(line) for line in done.stdout.splitlines()] == [True, False, False, True]
    first, second = done.stderr.splitlines()
    assert first.startswith("regard: pair 2: the text has 2,000 tokens")
    assert second.startswith("regard: pair 3: the target has 1,000,000 characters")
