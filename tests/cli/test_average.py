"""`regard average`: a model directory from the mean of checkpoints."""

from collections.abc import Callable
from pathlib import Path

from tests.cli.command import regard


def test_the_mean_of_checkpoints_is_a_model(toy_run: Path, tmp_path: Path, error_line: Callable[..., str]) -> None:
    done = regard("average", toy_run, "--best", 2, "--out", tmp_path / "mean")
    assert done.returncode == 0 and "mean of the checkpoints at steps" in done.stdout
    card = (tmp_path / "mean" / "README.md").read_text()
    assert "| weights | the mean" in card and "kept:" not in card and "BLEU" not in card
    assert regard("translate", tmp_path / "mean", "--text", "a b", "--beam", 1).returncode == 0
    assert "choose fewer" in error_line("average", toy_run, "--last", 50, "--out", tmp_path / "x")
    assert "--last K or --best K" in error_line("average", toy_run)
