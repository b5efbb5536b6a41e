"""`regard train`: what it writes, what it reads, and how it fails."""

import json
from collections.abc import Callable
from pathlib import Path

from pyarrow import parquet, table

from regard.data.builtin.toy_tasks import toy_pairs
from tests.cli.command import regard, toy_files


def test_the_directory_is_a_complete_bundle_without_pickle(toy_run: Path) -> None:
    names = {p.name for p in toy_run.iterdir()}
    assert names >= {
        *("config.json", "model.safetensors", "tokenizer", "README.md", "config.yaml", "metrics.jsonl"),
        *("curves.png", "curves.svg", "checkpoints"),
    }
    assert not [p for p in toy_run.rglob("*") if p.suffix in {".pt", ".pkl", ".bin", ".ckpt", ".tmp"}]
    card = (toy_run / "README.md").read_text()
    sides = [(toy_run.parent / name).read_text().splitlines() for name in ("train.src", "train.tgt")]
    assert "BLEU" in card and "nrefs:1" in card and f"{len(set(zip(*sides, strict=True))):,}" in card
    rows = [json.loads(line) for line in (toy_run / "metrics.jsonl").read_text().splitlines()]
    assert {"loss", "lr", "tokens_per_second", "grad_norm"} <= rows[0].keys()
    assert {"valid_loss", "bleu", "chrf"} <= rows[-1].keys()
    assert rows[-1]["exact"] > 80, "each output is compared with its own reference"


def test_tsv_jsonl_and_held_out_validation_data(tmp_path: Path) -> None:
    pairs = toy_pairs("copy", 200, lengths=(2, 4), n_letters=4)
    tsv, jsonl = tmp_path / "a.tsv", tmp_path / "b.jsonl"
    tsv.write_text("".join(f"{s}\t{t}\n" for s, t in pairs))
    jsonl.write_text("".join(json.dumps({"translation": {"xx": s, "yy": t}}) + "\n" for s, t in pairs))
    settings = ("train.steps=2", "tokenizer.kind=char", "model.d_model=8", "train.tensorboard=true")
    settings += ("tokenizer.joint=false", "train.log_every=1")
    options = ["--recipe", "tiny", *(word for setting in settings for word in ("--set", setting))]
    (folder := tmp_path / "tables").mkdir()
    parquet.write_table(table({"xx": [s for s, _ in pairs], "yy": [t for _, t in pairs]}), folder / "a.parquet")
    for files in ([tsv, "--valid", folder], [folder], [tsv, "--valid", jsonl, "--languages", "xx-yy"]):
        out = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
        done = regard("train", *files, "--out", out, *options)
        assert done.returncode == 0, done.stderr
        assert ("held out" in done.stderr) == ("--valid" not in files)
        assert f"{200 - len(set(pairs)):,} × duplicate of an earlier pair, left out" in done.stderr
        leaks = "200 of 200 sources (100.0 %) of the validation data also occur in the training data, 200 with the same"
        assert (leaks in done.stderr) == ("--valid" in files)
        assert any((out / "tensorboard").glob("events*"))


def test_errors_are_one_line_and_write_nothing(toy_run: Path, tmp_path: Path, error_line: Callable[..., str]) -> None:
    files = toy_files(tmp_path, n=50)
    short = tmp_path / "short"
    short.write_text("a\n")
    empty = tmp_path / "empty"
    empty.write_text("")
    out = tmp_path / "out"
    other_files = tmp_path / "foreign"
    other_files.mkdir()
    (other_files / "README.md").write_text("mine")
    for arguments, message in (
        ([files[0], short, "--out", out], "50 lines but"),
        ([files[0], "--out", out], "two line-aligned files"),
        ([files[0], tmp_path / "none", "--out", out], "no such file"),
        ([empty, empty, "--out", out], "no usable pair"),
        ([*files[:2], "--out", out, "--recipe", "bse"], "base"),
        ([*files[:2], "--out", out, "--languages", "enfr"], "en-fr"),
        ([*files[:2], "--out", out, "--config", short], "mapping"),
        ([*files[:2], "--out", toy_run], "already holds a run"),
        ([*files[:2], "--out", short / "x"], "Not a directory"),
        ([*files[:2], "--out", other_files], "not from a run"),
    ):
        assert message in error_line("train", *arguments), arguments
    for setting, message in (
        ("train.lrr=1", "did you mean 'lr'"),
        ("train.lr", "key=value"),
        ("train.steps=many", "train.steps"),
        ("model.n_heads=3", "must divide"),
        ("tokenizer.vocab_size=17", "vocab_size"),
        ("valid.every=0", "valid.every"),
        ("valid.tokenize=x", "valid.tokenize"),
        ("train.betas=[2, 3]", "train.betas"),
        ("model.kind=[a]", "model.kind"),
    ):
        assert message in error_line("train", *files[:2], "--out", out, "--set", setting), setting
    positions = ("--set", "model.positions=learned", "--set", "model.max_len=20")
    assert "max_len" in error_line("train", *files[:2], "--out", out, *positions)
    assert not (out / "model.safetensors").exists() and not (out / "checkpoints").exists()
