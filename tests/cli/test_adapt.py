"""`regard train --init` with LoRA, `regard adapt`, and their mistakes."""

from collections.abc import Callable
from pathlib import Path

from tests.cli.command import regard, toy_files


def test_an_adapter_is_trained_and_merged(toy_run: Path, tmp_path: Path, error_line: Callable[..., str]) -> None:
    files = toy_files(tmp_path, task="copy", n=300)
    out = tmp_path / "child"
    short = ("--set", "train.steps=6", "--set", "valid.every=3", "--set", "valid.sentences=10")
    command = ["train", *files[:2], "--valid", *files[2:], "--init", toy_run]
    done = regard(*command, "--out", out, *short, "--set", "train.lora.rank=2")
    assert done.returncode == 0, done.stderr
    assert "of which" in done.stderr and "are trained" in done.stderr
    assert "trained: adapters of rank 2" in (out / "README.md").read_text()
    merged = regard("adapt", toy_run, out / "adapter", "--out", tmp_path / "merged")
    assert merged.returncode == 0 and str(tmp_path / "merged") in merged.stdout, merged.stderr
    assert (tmp_path / "merged" / "model.safetensors").read_bytes() == (out / "model.safetensors").read_bytes()
    translated = [regard("translate", folder, "--text", "a b c").stdout for folder in (out, tmp_path / "merged")]
    assert translated[0] == translated[1]
    assert regard("verify", tmp_path / "merged").returncode == 0
    keep = "train.init_tokenizer=keep"
    for arguments, message in (
        (["adapt", toy_run, out, "--out", out], "exists already"),
        (["adapt", toy_run, tmp_path, "--out", tmp_path / "x"], "no adapter found"),
        (["adapt", tmp_path, out, "--out", tmp_path / "x"], "no model found"),
        (["adapt", out, out, "--out", tmp_path / "x"], "not the model that the adapter was trained for"),
        ([*command, "--out", tmp_path / "x", "--recipe", "small"], "leave out --recipe"),
        ([*command, "--out", tmp_path / "x", "--set", "model.d_model=64"], "model.d_model is 64, but 32"),
        ([*command, "--out", tmp_path / "x", "--set", "train.freeze=[embedings]"], "did you mean embeddings"),
        ([*command[:-2], "--out", tmp_path / "x", "--new-tokenizer"], "give --init"),
        ([*command, "--out", tmp_path / "x", "--new-tokenizer", "--set", keep], "leave one of them out"),
        ([*command[:-2], "--out", tmp_path / "x", "--set", "train.lora.rank=2"], "give --init"),
        ([*command[:-2], "--out", tmp_path / "x", "--init", tmp_path / "none"], "no model found"),
    ):
        assert message in error_line(*arguments), arguments
    assert not (tmp_path / "x").exists() or not (tmp_path / "x" / "checkpoints").exists()
