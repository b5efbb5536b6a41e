"""`regard rounds` from the command line; tests/synthetic/test_faults.py runs it to its end."""

from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from regard.cli.output import continue_by_same_command
from regard.train.signals import Stopped


def test_mistakes_are_one_line(tmp_path: Path, error_line: Callable[..., str]) -> None:
    files = [tmp_path / f"a.{side}" for side in ("en", "fr")]
    for path in files:
        path.write_text("a b\n")
    out = ("--out", tmp_path / "out")
    text = ("--mono-tgt", files[1])
    assert "--mono-tgt" in error_line("rounds", *files, *out)
    assert "no such file" in error_line("rounds", *files, "--mono-tgt", tmp_path / "none", *out)
    assert "--minutes is for the recipe auto" in error_line(
        "rounds", *files, *text, *out, "--recipe", "tiny", "--minutes", 1
    )
    assert "unknown; choose one of" in error_line("rounds", *files, *text, *out, "--recipe", "tni")
    assert "keep must be more than 0" in error_line("rounds", *files, *text, *out, "--keep", 0)
    assert "is for the task text" in error_line("rounds", *files, *text, *out, "--recipe", "gpt")
    assert "--mono-tgt is for fr text" in error_line("rounds", *files, "--mono-tgt", files[0], *out)
    (tmp_path / "blank").write_text("\n \n")
    blank = "blank: has no line to translate (empty line in line 1)"
    assert blank in error_line("rounds", *files, "--mono-tgt", tmp_path / "blank", *out)
    assert blank in error_line("rounds", *files, *text, "--mono-src", tmp_path / "blank", *out)
    assert "beam must be at most" in error_line("rounds", *files, *text, *out, "--beam", 5000)
    assert "give at most 10000" in error_line("rounds", *files, *text, *out, "--upsample", 10**8)
    assert "--mono-src is for en text" in error_line("rounds", *files, *text, "--mono-src", files[1], *out)
    assert "has no effect" in error_line("rounds", *files, *text, *out, "--sample", "--beam", 3)
    assert "set it to 0" in error_line("rounds", *files, *text, *out, "--set", "glossary.share=0.5")
    assert not (tmp_path / "out").exists()
    assert "1 pairs are too few" in error_line("rounds", *files, *text, *out)


def test_a_stopped_training_says_how_to_continue(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as stopped, continue_by_same_command():
        raise Stopped(15, 3)
    assert stopped.value.exit_code == 143
    assert capfd.readouterr().err == "regard: stopped and saved; give the same command again to continue\n"


def test_ctrl_c_outside_of_training_is_one_line_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as stopped, continue_by_same_command():
        raise KeyboardInterrupt
    assert stopped.value.exit_code == 130
    assert capsys.readouterr().err == "regard: stopped; give the same command again to continue\n"
