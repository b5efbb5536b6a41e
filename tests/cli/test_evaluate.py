"""`regard evaluate`: the scores of sacreBLEU, and a baseline."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.command import environment, failed_in_one_line, regard, toy_files


def test_scores_and_signatures_equal_those_of_sacrebleu(
    toy_run: Path, held_out: tuple[Path, Path], tmp_path: Path
) -> None:
    src, ref = held_out
    output = tmp_path / "hyp"
    for extra in ([], ["--tokenize", "none", "--lowercase"]):
        ours = json.loads(regard("evaluate", toy_run, src, ref, "--json", "--output", output, *extra).stdout)
        flags = ["--tokenize", "none", "-lc"] if extra else []
        command = [sys.executable, "-m", "sacrebleu", ref, "-i", output, "-m", "bleu", "chrf", "ter", "-w", "6", *flags]
        theirs = subprocess.run(map(str, command), capture_output=True, text=True, env=environment(), check=True)
        for mine, other in zip(ours["scores"].items(), json.loads(theirs.stdout), strict=True):
            assert mine[0] == other["name"]
            assert mine[1]["score"] == pytest.approx(other["score"], abs=1e-6)
            assert mine[1]["signature"] == other["signature"]
    assert sum(row["sentences"] for row in ours["by_source_length"]) == 60
    text = regard("evaluate", toy_run, src, ref).stdout
    assert "BLEU" in text and "nrefs:1|case:mixed" in text and "1–10" in text and "95 % interval" in text
    assert all(row["interval"][0] <= row["score"] <= row["interval"][1] for row in ours["scores"].values())


def test_tags_add_the_scores_of_each(
    toy_run: Path, held_out: tuple[Path, Path], tmp_path: Path, error_line: Callable[..., str]
) -> None:
    tags = tmp_path / "tags"
    tags.write_text("short\n" * 20 + "long\n" * 40)
    done = regard("evaluate", toy_run, *held_out, "--tags", tags, "--json")
    rows = json.loads(done.stdout)["by_tag"]
    assert [(row["name"], row["sentences"]) for row in rows] == [("long", 40), ("short", 20)]
    tags.write_text("short\n")
    assert "1 lines for 60 sentences" in error_line("evaluate", toy_run, *held_out, "--tags", tags)


def test_a_baseline_adds_a_paired_bootstrap_test(toy_run: Path, held_out: tuple[Path, Path], tmp_path: Path) -> None:
    worse = tmp_path / "worse"
    first = regard("average", toy_run, "--last", 1, "--out", worse)
    assert first.returncode == 0, first.stderr
    shutil.copytree(toy_run / "checkpoints", worse / "checkpoints")
    done = regard("evaluate", toy_run, *held_out, "--baseline", worse, "--json")
    rows = json.loads(done.stdout)["paired_bootstrap"]
    assert [row["metric"] for row in rows] == ["BLEU", "chrF2", "TER"]
    assert all(0 <= row["p_value"] <= 1 for row in rows)
    same = regard("evaluate", toy_run, *held_out, "--baseline", toy_run, "--paired", "randomisation", "--json")
    rows = json.loads(same.stdout)["paired_randomisation"]
    assert [row["p_value"] for row in rows] == [1.0, 1.0, 1.0], "a model equals itself"


def test_one_file_of_pairs_and_a_metric_of_another_program(
    toy_run: Path, held_out: tuple[Path, Path], tmp_path: Path
) -> None:
    lines = [path.read_text().splitlines() for path in held_out]
    pairs, program = tmp_path / "test.tsv", tmp_path / "metric.py"
    pairs.write_text("".join(f"{src}\t{ref}\n" for src, ref in zip(*lines, strict=True)))
    program.write_text(
        "import sys\nfor line in sys.stdin:\n    _, ours, ref = line[:-1].split('\\t')\n    print(float(ours == ref))"
    )
    options = ["--metric-command", f"same={sys.executable} {program}", "--json"]
    from_files = json.loads(regard("evaluate", toy_run, *held_out, *options).stdout)
    from_pairs = json.loads(regard("evaluate", toy_run, pairs, *options).stdout)
    assert from_pairs == from_files
    assert set(from_files["confidence_and_chrf"]) == {"pearson", "spearman"}
    assert 0.5 < from_files["scores"]["same"]["score"] <= 1.0
    text = regard("evaluate", toy_run, pairs, *options[:2]).stdout
    assert "same" in text and str(program) in text
    failed = regard("evaluate", toy_run, pairs, "--metric-command", "false", "--output", tmp_path / "kept")
    assert "false: failed with exit code 1" in failed_in_one_line(failed)
    assert len((tmp_path / "kept").read_text().splitlines()) == 60, "the translations are not lost"


def test_a_source_that_is_too_long_is_named(toy_run: Path, tmp_path: Path, error_line: Callable[..., str]) -> None:
    src, ref = tmp_path / "src", tmp_path / "ref"
    src.write_text("a b\n" + "a " * 2000 + "\n")
    ref.write_text("b a\nb\n")
    assert "line 2 of the sources has 2,000 tokens" in error_line("evaluate", toy_run, src, ref)
    done = regard("evaluate", toy_run, src, ref, "--max-source", 2000, "--beam", 1)
    assert done.returncode == 0, done.stderr


def test_errors_are_one_line(toy_run: Path, tmp_path: Path, error_line: Callable[..., str]) -> None:
    files = toy_files(tmp_path, n=50)
    short = tmp_path / "short"
    short.write_text("a\n")
    empty = tmp_path / "empty"
    empty.write_text("")
    for arguments, message in (
        ([short, files[0]], "1 lines but"),
        ([empty, empty], "empty"),
        ([short, short, short], "3 test files"),
        ([short], "give two line-aligned files, or one that ends in .tsv"),
        ([short, short, "--metric-command", "no-such-metric"], "no-such-metric: there is no such program"),
        ([short, short, "--tokenize", "14a"], "13a"),
        ([short, short, "--output", tmp_path / "no" / "file"], "no folder"),
        ([short, short, "--output", "/"], "is a folder"),
        ([short, short, "--stride", "2"], "--stride has no effect"),
        ([short, short, "--baseline", toy_run, "--paired", "t"], "--paired t: choose"),
        ([short, short, "--paired", "bootstrap"], "--paired has no effect without --baseline"),
    ):
        assert message in error_line("evaluate", toy_run, *arguments), arguments
