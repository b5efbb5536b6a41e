"""`regard compare` on toy data: two models that succeed and two that fail."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from regard.compare.plan import split_recipes
from regard.text.tokenizer import SentencePieceTokenizer, TokenizerPair
from regard.train.log import read_metrics
from regard.train.recipe import load_recipe
from regard.train.run import Run, train
from tests.cli.command import failed_in_one_line, regard, toy_files


def test_a_comma_in_brackets_does_not_separate_recipes() -> None:
    assert split_recipes("a, b+x.y=[1,2],c") == ["a", "b+x.y=[1,2]", "c"]


class Comparison(NamedTuple):
    """A finished comparison: two models that succeed, one with invalid options and one without usable data."""

    command: list[object]
    labels: tuple[str, ...]
    out: Path

    def rows(self) -> list[dict[str, Any]]:
        return json.loads((self.out / "compare.json").read_text())


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    folder = tmp_path_factory.mktemp("compare")
    yaml_file = folder / "own.yaml"
    yaml_file.write_text("tokenizer: {kind: char}\nmodel: {n_layers: 1, n_heads: 2}\ntrain: {average: none}\n")
    labels = ("tiny", f"{yaml_file}+model.positions=rotary", "tiny+model.n_heads=5", "tiny+batch.max_tokens=1")
    files = toy_files(folder, "copy", 200)
    gold = folder / "gold.align"
    sources = files[2].read_text().splitlines()
    gold.write_text("".join(" ".join(f"{i}-{i}" for i in range(len(s.split()))) + "\n" for s in sources))
    settings = ("tiny:train.warmup=3", "model.d_model=32", "model.d_ff=32", "batch.tokens=256", "valid.samples=0")
    command: list[object] = ["compare", *files[:2], "--valid", *files[2:], "--test", *files[2:]]
    command += ["--alignments", gold, "--updates", 6, "--lengths", "3,4", "--recipes", ",".join(labels)]
    command += ["--out", folder / "out", *(word for setting in settings for word in ("--set", setting))]
    done = regard(*command)
    assert done.returncode == 0, done.stderr
    assert "step 6/6" in done.stderr
    assert all(label in done.stdout for label in labels)
    return Comparison(command, labels, folder / "out")


def test_failed_models_are_in_the_table_and_do_not_stop_the_others(comparison: Comparison) -> None:
    rows = comparison.rows()
    assert tuple(row["model"] for row in rows) == comparison.labels
    for row in rows[:2]:
        assert row["updates"] == 6 and row["parameters"] > 0 and 0 <= row["aer"] <= 1
        assert row["peak_memory"] > 50 * 2**20 and row["sentences_per_second"] > 0
        assert row["train_tokens_per_second"] > 0 and row["valid_loss"] > 0
        assert [bucket["words"] for bucket in row["by_length"]] == ["1–3", "4", "5+"]
        assert sum(bucket["sentences"] for bucket in row["by_length"]) == 100
    assert "n_heads=5 must divide d_model=32" in rows[2]["error"]
    assert "no usable pair" in rows[3]["error"]
    assert all("\n" not in row["error"] for row in rows[2:])
    table = (comparison.out / "compare.md").read_text()
    assert f"| {comparison.labels[1]} |" in table and "AER" in table
    assert {"compare.png", "compare.svg"} <= {path.name for path in comparison.out.iterdir()}


def test_all_models_share_the_tokenizer_of_the_first_recipe(comparison: Comparison) -> None:
    shared = TokenizerPair.load(comparison.out / "tokenizer")
    assert isinstance(shared.src, SentencePieceTokenizer)
    for row in comparison.rows()[:2]:
        assert TokenizerPair.load(comparison.out / row["folder"] / "tokenizer").fingerprint == shared.fingerprint


def test_settings_apply_to_all_models_or_to_one(comparison: Comparison) -> None:
    first, second = (
        yaml.safe_load((comparison.out / row["folder"] / "config.yaml").read_text()) for row in comparison.rows()[:2]
    )
    assert first["model"]["d_model"] == second["model"]["d_model"] == 32
    assert (first["train"]["warmup"], second["train"]["warmup"]) == (3, 4000)
    assert (first["model"]["positions"], second["model"]["positions"]) == ("sinusoidal", "rotary")


def test_a_second_call_trains_nothing(comparison: Comparison) -> None:
    command, labels, out = comparison
    folders = [out / row["folder"] for row in comparison.rows()[:2]]

    def file_times() -> dict[Path, int]:
        return {p: p.stat().st_mtime_ns for folder in folders for p in folder.rglob("*") if p.is_file()}

    before, table = file_times(), (out / "compare.md").read_text()
    done = regard(*command)
    assert done.returncode == 0, done.stderr
    assert "step" not in done.stderr and labels[1] in done.stdout
    assert file_times() == before and (out / "compare.md").read_text() == table


def test_a_budget_in_seconds_ends_the_learning_rate_schedule_in_time(tmp_path: Path) -> None:
    files = toy_files(tmp_path, "copy", 200)
    settings = ("model.d_model=32", "model.d_ff=32", "batch.tokens=256", "train.warmup=1", "train.log_every=1")
    recipe = load_recipe("tiny", settings=(*settings, "train.steps=1000000", "train.seconds=0.5"))
    run = Run(recipe, tuple(files[:2]), tuple(files[2:]), tmp_path / "run", device="cpu")
    done = train(run).progress
    assert 0.5 <= done.seconds < 5 and 2 < done.step < 100_000 and done.validated == done.step
    rates = [row["lr"] for row in read_metrics(tmp_path / "run" / "metrics.jsonl") if "lr" in row]
    assert max(rates) > 2e-3 and rates[-1] < 0.1 * max(rates)  # the cosine schedule reached its end
    assert train(replace(run, resume=True)).progress == done


def test_user_errors_are_one_line(comparison: Comparison, tmp_path: Path) -> None:
    command, labels, _ = comparison
    assert "--seconds" in failed_in_one_line(regard(*command, "--seconds", 3))
    (tmp_path / "thesis.txt").write_text("mine")
    assert "empty folder" in failed_in_one_line(regard(*command, "--out", tmp_path))
    unknown = ["nothing" if word == ",".join(labels) else word for word in command]
    assert "unknown" in failed_in_one_line(regard(*unknown, "--out", tmp_path / "n"))
