"""Running `regard` in a process of its own, as a user does, and toy data to train on."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from regard.data.builtin.toy_tasks import toy_pairs
from tests.cli.preloaded import PreloadedCommands
from tests.conftest import write_pairs

TOY = [
    *("--recipe", "tiny", "--set", "tokenizer.kind=word", "--set", "model.d_model=32", "--set", "model.d_ff=64"),
    *("--set", "batch.tokens=1024", "--set", "train.warmup=100", "--set", "train.lr=6e-3"),
]


class StartedCommand:
    """`regard ARGUMENTS`, forked from a process that has imported torch already. One can run at a time."""

    def __init__(self, *arguments: object, stdin: bytes | None = None, prelude: str = "") -> None:
        self.words = [str(argument) for argument in arguments]
        self._stack = ExitStack()
        self._files = [self._stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]  # noqa: SIM115
        self._files[0].write(stdin or b"")
        self._files[0].seek(0)
        streams = [file.fileno() for file in self._files]
        self._process = preloaded_commands().start(self.words, streams, environment(), prelude)

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self._process, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
        self.wait()

    def wait(self, timeout: float = 200) -> subprocess.CompletedProcess[str]:
        """Wait for its end and return its exit code and output; kill it after the timeout."""
        with self._stack:
            code = preloaded_commands().wait(timeout)
            for file in self._files[1:]:
                file.seek(0)
            stdout, stderr = (file.read().decode(errors="surrogateescape") for file in self._files[1:])
        return subprocess.CompletedProcess(self.words, code, stdout, stderr)


def regard(*arguments: object, stdin: bytes | None = None, timeout: float = 200) -> subprocess.CompletedProcess[str]:
    """Run `regard ARGUMENTS` in a process of its own."""
    return StartedCommand(*arguments, stdin=stdin).wait(timeout)


@cache
def preloaded_commands() -> PreloadedCommands:
    return PreloadedCommands(environment())


def environment() -> dict[str, str]:
    """Return an environment with one thread, so that results are reproducible, and a fixed terminal width."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8", "COLUMNS": "200"}


def toy_files(folder: Path, task: str = "reverse", n: int = 4000) -> list[Path]:
    """Write the files of a toy task and return [train.src, train.tgt, valid.src, valid.tgt]."""
    options = {"lengths": (2, 6), "n_letters": 8}
    train = write_pairs(folder, "train", toy_pairs(task, n, seed=1, **options))  # type: ignore[arg-type]
    valid = write_pairs(folder, "valid", toy_pairs(task, 100, seed=2, **options))  # type: ignore[arg-type]
    return [*train, *valid]


def train_arguments(files: Sequence[Path], out: Path, *settings: str) -> list[object]:
    """Return the arguments that train a toy model on files of `toy_files`."""
    chosen = [word for setting in settings for word in ("--set", setting)]
    return ["train", *files[:2], "--valid", *files[2:], "--out", out, *TOY, *chosen]


def failed_in_one_line(run: subprocess.CompletedProcess[str]) -> str:
    """Check that the command failed because of a mistake of the user, and return its last line."""
    assert run.returncode == 2, run.stderr
    assert "Traceback" not in run.stderr
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith("regard: ")
    return last
