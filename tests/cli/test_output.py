"""Standard output and standard error that cannot be written: one line or none, the right exit code, no traceback."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

import pytest

from regard.cli import app
from regard.cli.app import main
from regard.cli.output import CLOSED_PIPE, ProgressLine
from tests.cli.command import environment, regard, toy_files

BUNDLES = Path(__file__).parents[1] / "bundles" / "format-1"
FULL = Path("/dev/full")


@pytest.fixture
def commands(toy_run: Path, held_out: tuple[Path, Path], tmp_path: Path) -> list[Sequence[object]]:
    """A command of every verb that prints something"""
    image = tmp_path / "image.png"
    pillow = pytest.importorskip("PIL.Image")
    pillow.new("RGB", (8, 8)).save(image)
    return [
        ("--version",),
        ("--help",),
        ("translate", "--help"),
        ("translate", toy_run, "--text", "a b"),
        ("evaluate", toy_run, *held_out, "--beam", 1),
        ("align", toy_run, *held_out),
        ("attend", toy_run, "a b"),
        ("attribute", toy_run, "a b"),
        ("explain", "attention"),
        ("explain",),
        ("lab",),
        ("data", "copy", tmp_path / "data", "--size", 10),
        ("verify", toy_run),
        ("classify", BUNDLES / "classifier", "--text", "a cat"),
        ("embed", BUNDLES / "classifier", "--text", "a cat"),
        ("generate", BUNDLES / "generator", "--max-new-tokens", 2),
        ("caption", BUNDLES / "captioner", image),
    ]


def run(arguments: Sequence[object], redirection: str) -> subprocess.CompletedProcess[str]:
    """Run `regard` in a new process with a redirection of the shell."""
    words = [sys.executable, "-W", "error", "-m", "regard", *map(str, arguments)]
    command = ["sh", "-c", f'"$@" {redirection}', "sh", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, env=environment())


@pytest.fixture
def run_with_output(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[[Sequence[object], TextIO], tuple[int, str]]:
    """Run `regard` in this process (quicker than a new one) with a stream as standard output → (exit code, error)."""

    def run_here(arguments: Sequence[object], stream: TextIO) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["regard", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdout", stream)
        with stream, pytest.raises(SystemExit) as exited:
            main()
        assert isinstance(exited.value.code, int)
        return exited.value.code, capfd.readouterr().err

    return run_here


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")
def test_output_that_cannot_be_written_is_one_line(
    commands: list[Sequence[object]], run_with_output: Callable[..., tuple[int, str]]
) -> None:
    for arguments in commands:
        code, error = run_with_output(arguments, FULL.open("w"))
        [line] = error.splitlines()
        assert code == 2 and line.startswith("regard: ") and "No space left on device" in line, arguments


def test_a_reader_that_leaves_ends_the_command_quietly(
    commands: list[Sequence[object]], run_with_output: Callable[..., tuple[int, str]]
) -> None:
    for arguments in commands:
        if "--help" not in arguments:  # Typer handles that itself
            read_end, write_end = os.pipe()
            os.close(read_end)
            assert run_with_output(arguments, os.fdopen(write_end, "w")) == (CLOSED_PIPE, ""), arguments


@pytest.mark.parametrize(
    ("redirection", "reason"), [("> /dev/full", "No space left on device"), (">&-", "Bad file descriptor")]
)
def test_nothing_is_left_for_the_interpreter_to_complain_about(redirection: str, reason: str, toy_run: Path) -> None:
    for arguments in (("--version",), ("translate", "--help"), ("translate", toy_run, "--text", "a b")):
        done = run(arguments, redirection)
        [line] = done.stderr.splitlines()
        assert done.returncode == 2 and line.startswith("regard: ") and reason in line, arguments


def test_the_first_line_is_enough_for_head(toy_run: Path) -> None:
    done = run(("translate", toy_run, *["--text", "a b"] * 2000, "--beam", 1), "| head -n 1")
    assert (done.stdout, done.stderr) == ("b a\n", "")
    done = run(("--help",), "| sleep 0")
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
def test_nobody_needs_to_read_standard_error(redirection: str, toy_run: Path) -> None:
    done = run(("translate", toy_run, "--text", "a b"), redirection)
    assert (done.returncode, done.stdout) == (0, "b a\n")
    done = run(("translate", toy_run / "none"), redirection)
    assert (done.returncode, done.stdout) == (2, "")
    done = run(("translate", toy_run, "--max-source", 2, "--text", "a b c", "--text", "a b"), redirection)
    assert (done.returncode, done.stdout) == (2, "\nb a\n")


def test_training_needs_no_streams_at_all(tmp_path: Path) -> None:
    src, tgt, *_ = toy_files(tmp_path, n=100)
    settings = ("train.steps=2", "valid.every=2", "valid.sentences=4", "decode.max_len=5", "tokenizer.kind=word")
    options = ("--recipe", "tiny", *(word for setting in settings for word in ("--set", setting)))
    for number, redirection in enumerate(("<&- >&- 2>&-", "2>/dev/full >/dev/full", "2>&1 >/dev/null | head -n 2")):
        out = tmp_path / str(number)
        run(("train", src, tgt, "--out", out, *options), redirection)
        verified = regard("verify", out)
        assert verified.returncode == 0, verified.stdout + verified.stderr


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(28, "No space left on device", "/disk/file"), "regard: /disk/file: No space left on device"),
        (OSError(5, "Input/output error"), "regard: input or output: Input/output error"),
        (PermissionError(13, "Permission denied", "/disk/x"), "regard: /disk/x: Permission denied"),
        (MemoryError(), "regard: out of memory; "),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."), "out of memory; "),
    ],
    ids=repr,
)
def test_other_errors_of_the_machine_are_one_line(
    error: Exception, line: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(**options: object) -> None:
        raise error

    monkeypatch.setattr(app, "app", fail)
    with pytest.raises(SystemExit) as exited:
        main()
    assert exited.value.code == 2
    assert line in capfd.readouterr().err


def test_a_pipe_is_not_replaced_by_a_file(
    toy_run: Path, held_out: tuple[Path, Path], tmp_path: Path, error_line: Callable[..., str]
) -> None:
    """The same holds for devices: a file must never take the place of /dev/null."""
    for arguments, name in (
        (("evaluate", toy_run, *held_out, "--output"), "it"),
        (("attend", toy_run, "a", "--out"), "it.png"),
        (("attribute", toy_run, "a", "--out"), "it.svg"),
        (("explain", "attention", "--out"), "it.html"),
    ):
        os.mkfifo(pipe := tmp_path / name)
        assert f"{pipe}: is a pipe" in error_line(*arguments, pipe)
        assert pipe.is_fifo()


def test_folders_that_cannot_be_written_are_one_line(
    toy_run: Path, held_out: tuple[Path, Path], tmp_path: Path, error_line: Callable[..., str]
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    src, tgt = held_out
    for out in (tmp_path / ("x" * 300), file, file / "below"):
        for arguments in (
            ("train", src, tgt, "--out", out),
            ("data", "copy", out, "--size", 10),
            ("demo", "--out", out),
            ("average", toy_run, "--last", 1, "--out", out),
            ("lab", "heads", "--quick", "--out", out),
            ("bench", "scaling", "--lengths", "4", "--out", out),
            ("compare", src, tgt, "--test", src, tgt, "--recipes", "tiny", "--updates", 1, "--out", out),
            ("attend", toy_run, "a", "--out", out / "it.png"),
            ("attribute", toy_run, "a", "--out", out / "it.png"),
            ("explain", "attention", "--out", out / "it.html"),
            ("evaluate", toy_run, src, tgt, "--output", out / "it"),
        ):
            assert "x" * 300 in (line := error_line(*arguments)) or "file" in line, arguments
    assert file.read_text() == ""


def test_each_step_of_a_job_has_its_own_estimate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr("regard.cli.output.time.monotonic", lambda: now)
    progress = ProgressLine("lines", log=True)
    for total in (2_000, 4_000, 4_000):  # 10 lines per second, and an hour in between
        for n_done in (0, 1_000, total):
            progress("translated", n_done, total)
            now += 100
        now += 3_600
    lines = [line for line in capsys.readouterr().err.splitlines() if " 1,000 of" in line]
    assert [line.partition("lines, ")[2] for line in lines] == ["100 s left", "5 min left", "5 min left"]


def test_the_estimate_goes_on_if_fewer_are_reported_done_than_before(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr("regard.cli.output.time.monotonic", lambda: now)
    progress = ProgressLine("lines", log=True)
    for now, n_done in ((0, 0), (100, 1_000), (101, 400), (200, 2_000)):  # noqa: B007
        progress("translated", n_done, 4_000)
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition("lines, ")[2] for line in lines if "left" in line] == ["5 min left", "3 min left"]
