"""A toy model that the command line trains once, and a quick way to see how a command fails."""

import fcntl
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.cli import main
from regard.data.builtin.toy_tasks import toy_pairs
from tests.cli.command import regard, toy_files, train_arguments
from tests.conftest import write_pairs


@pytest.fixture(scope="session")
def toy_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model directory, trained by the command line to reverse letters. Tests must not change it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "toy"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:  # one of several test processes trains it, the others wait
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "run").is_dir():
            settings = ("train.steps=450", "valid.every=150", "train.average=last")
            done = regard(*train_arguments(toy_files(folder), folder / "unfinished", *settings))
            assert done.returncode == 0, done.stderr
            assert "target tokens/s" in done.stderr and "BLEU" in done.stderr
            assert str(folder / "unfinished") in done.stdout
            (folder / "unfinished").rename(folder / "run")
    return folder / "run"


@pytest.fixture(scope="session")
def held_out(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Test pairs of the same task: source file and reference file."""
    folder = tmp_path_factory.mktemp("test")
    return write_pairs(folder, "test", toy_pairs("reverse", 60, seed=3, lengths=(2, 6), n_letters=8))


@pytest.fixture
def error_line(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Run a command that must fail, in this process (quicker than a new one); return its last line."""

    def run(*arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", ["regard", *map(str, arguments)])
        with pytest.raises(SystemExit) as exited:
            main()
        assert exited.value.code == 2, arguments
        error = capfd.readouterr().err
        assert "Traceback" not in error
        line = error.strip().splitlines()[-1]
        assert line.startswith("regard: ")
        return line

    return run
