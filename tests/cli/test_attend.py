"""`regard attend`: as a figure, as data, and in the terminal."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from regard.models.record import AttentionRecord
from tests.cli.command import regard


def test_figures_data_and_the_terminal(toy_run: Path, tmp_path: Path) -> None:
    for name in ("map.png", "map.svg", "map.json", "map.safetensors"):
        done = regard("attend", toy_run, "a b c d", "--out", tmp_path / name)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == ["d c b a", str(tmp_path / name)]
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    record = AttentionRecord.from_json((tmp_path / "map.json").read_text())
    assert record.cross.shape == (2, 4, 5, 5)
    again = AttentionRecord.from_safetensors((tmp_path / "map.safetensors").read_bytes())
    assert np.allclose(again.cross, record.cross, atol=1e-6)
    options = ("--layer", 1, "--head", 2, "--kind", "encoder", "--words")
    lines = regard("attend", toy_run, "a b c d", *options).stdout.splitlines()
    assert lines[1].split() == ["a", "b", "c", "d"] and len(lines) == 2 + 4


def test_errors_are_one_line(toy_run: Path, tmp_path: Path, error_line: Callable[..., str]) -> None:
    for arguments, message in (
        (("", "--layer", 0), "the text is empty"),
        (("a b", "--layer", 7), "no layer 7; this model has 0 to 1"),
        (("a b", "--head", 4), "no head 4"),
        (("a b", "--kind", "self"), "encoder, decoder, cross"),
        (("a b", "--out", tmp_path / "map.gif"), ".png"),
        (("a b", "--out", tmp_path / "none" / "map.png"), "folder that exists"),
    ):
        assert message in error_line("attend", toy_run, *arguments), arguments
