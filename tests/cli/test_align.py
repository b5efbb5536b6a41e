"""Alignments as a user sees them: a toy model that is told where to look, and what it then carries over."""

import json
from pathlib import Path

import pytest

import regard as library
from tests.cli.command import failed_in_one_line, regard, toy_files, train_arguments


def gold_of(sources: Path) -> str:
    """Of a reversed line: word i comes last but i"""
    counts = [len(line.split()) for line in sources.read_text().splitlines()]
    return "".join(" ".join(f"{i}-{n - 1 - i}" for i in range(n)) + "\n" for n in counts)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("guided")
    files = toy_files(folder)
    for source in (files[0], files[2]):
        source.with_suffix(".align").write_text(gold_of(source))
    return files


@pytest.fixture(scope="module")
def run(files: list[Path]) -> Path:
    out = files[0].parent / "run"
    links = files[0].with_suffix(".align")
    done = regard(*train_arguments(files, out, "train.steps=450", "valid.every=450"), "--alignments", links)
    assert done.returncode == 0, done.stderr
    return out


def test_a_guided_model_aligns_as_it_was_told(run: Path, files: list[Path]) -> None:
    assert json.loads((run / "config.json").read_text())["alignment"] == {"layer": 0, "head": 0, "threshold": 0.25}
    gold = files[2].with_suffix(".align")
    done = regard("evaluate", run, *files[2:], "--alignments", gold, "--json")
    found = json.loads(done.stdout)["alignment"]
    assert found["aer"] < 0.05 and found["precision"] > 0.95 and found["recall"] > 0.95
    lines = regard("align", run, *files[2:]).stdout.splitlines()
    right = gold.read_text().splitlines()
    assert len(lines) == len(right)
    assert sum(sorted(a.split()) == sorted(b.split()) for a, b in zip(lines, right, strict=True)) > 0.9 * len(right)


def test_translations_come_with_their_alignment_and_markup(run: Path) -> None:
    said = regard("translate", run, "--text", "a b c d", "--alignment").stdout
    assert said == "d c b a ||| 0-3 1-2 2-1 3-0\n"
    marked = regard("translate", run, "--text", "a <b>b c</b> {x} d", "--markup").stdout
    assert marked == "{x} d <b>c b</b> a\n"
    [row] = map(json.loads, regard("translate", run, "--text", "a b", "--alignment", "--json").stdout.splitlines())
    assert row["hypotheses"][0]["alignment"] == [[0, 1], [1, 0]]
    assert library.load(run).translate(["a b"], attention=True)[0].alignment == ((0, 1), (1, 0))
    copied = regard("translate", run, "--text", "a ž c", "--copy-unknown").stdout.split()
    assert "ž" in copied


def test_the_best_head_is_found_and_kept(run: Path, files: list[Path]) -> None:
    gold = files[2].with_suffix(".align")
    shown = regard("align", run, *files[2:], "--choose", gold).stdout.splitlines()
    rates = [float(line.split("AER")[1].split()[0]) for line in shown[:-1]]
    assert rates == sorted(rates) and rates[0] < 0.05
    kept = json.loads((run / "config.json").read_text())["alignment"]
    named = "all layers" if kept["layer"] is None else f"layer {kept['layer']},"
    assert named in shown[-1] and shown[0].startswith(named)
    assert library.load(run).aligner.model_dump() == kept  # type: ignore[union-attr]
    both = regard("align", run, *files[2:], "--reverse", run).stdout.splitlines()  # reversing is its own reverse
    alone = regard("align", run, *files[2:]).stdout.splitlines()
    assert all(set(b.split()) <= set(a.split()) for a, b in zip(alone, both, strict=True))


def test_mistakes(run: Path, files: list[Path], tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("0-0\n")
    lines = {
        "lines for 4,000 pairs": [*train_arguments(files, tmp_path / "x"), "--alignments", tmp_path / "bad"],
        "no such file": [*train_arguments(files, tmp_path / "y"), "--alignments", tmp_path / "none"],
        "with an encoder": [
            *("train", *files[:2], "--recipe", "concat", "--out", tmp_path / "z"),
            *("--alignments", tmp_path / "bad"),
        ],
        "no head 9": ["align", run, *files[2:], "--head", 9],
        "1 lines for 100 pairs": ["evaluate", run, *files[2:], "--alignments", tmp_path / "bad"],
        "no effect with one test file": ["evaluate", run, files[2], "--alignments", tmp_path / "bad"],
    }
    for message, arguments in lines.items():
        assert message in failed_in_one_line(regard(*arguments))
