"""`regard` commands in forked processes, which can be stopped at a chosen change of a file.

Importing torch takes seconds, so it is imported once here, and every command runs in a fork of this process, which
starts in milliseconds. A fork runs the real command line in a session of its own, and is killed like any process.
Commands use one thread, because a process that has used several cannot be forked.
"""

import atexit
import faulthandler
import os
import resource
import secrets
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NoReturn

# Read when torch is loaded. Some virtual machines report AMX but fail on its instructions.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
os.environ["OMP_NUM_THREADS"] = "1"

import torch

from regard import files as regard_files
from regard.cli import main

LIBRARY = (
    *("torch._dynamo", "matplotlib.pyplot", "matplotlib.backends.backend_svg", "rich._emoji_codes"),
    *("regard.train.run", "regard.pipelines.load", "regard.alignment.transfer", "regard.visualize.curves"),
)
"""What commands import when they run"""
for module in LIBRARY:
    import_module(module)
torch.set_num_threads(1)

LIMIT = 30.0
"""Seconds after which a command is taken to hang"""
MEMORY = 8 << 30
"""Bytes of address space of a command, so that a hostile file cannot take all memory of the machine"""

WRITES = {
    *("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink", "os.utime"),
    *("shutil.rmtree", "shutil.move", "shutil.copyfile", "fcntl.flock", "fcntl.lockf"),
}
"""Audit events of changes of files, besides `open`; `os.fsync` has no event and is wrapped"""

PHASES = (
    ("curves", "visualize/curves.py"),
    ("bundle", "regard/bundle.py"),
    ("averaging", "in _load_best_weights"),
    ("validation", "regard/evaluate/"),
    ("resume", "in restore"),
    ("save", "train/checkpoint.py"),
    ("tokenizer", "in _tokenizers"),
    ("store", "in load_data"),
    ("updates", "train/trainer.py"),
)
"""Phases of a training run, and what the stack contains then; the first that is found counts"""


@dataclass(frozen=True)
class Trap:
    """What happens to a command just before its `event`-th change of a file, counted from 1."""

    event: int
    action: str = "kill"
    """kill: SIGKILL; cut: the same, but a file that it creates is left empty, and half of what it wrote to a file since
    the last fsync is lost, as after a power failure; fill: the disk becomes full"""

    def spring(self, name: str, path: Path, safe: int) -> None:
        """Do it. The first `safe` bytes of the file are on the disk for certain."""
        if self.action == "fill":
            return fill_disk(path.parent)
        if self.action == "cut" and path.is_file() and name in ("create", "fsync"):
            os.truncate(path, (safe + path.stat().st_size) // 2 if name == "fsync" else 0)
        return os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    verb: str
    code: int
    """Exit code, or minus the number of the signal that ended it"""
    out: str
    err: str
    seconds: float
    events: tuple[str, ...]
    """Its changes of files, each as "fsync PATH" """
    stack: str
    """Of a killed process: what it was doing"""
    hung: bool

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL and not self.hung

    @property
    def phase(self) -> str:
        if self.verb != "train":
            return self.verb
        return next((phase for phase, mark in PHASES if mark in self.stack), "start")

    @property
    def line(self) -> str:
        """The last line on standard error"""
        return (self.err.strip().splitlines() or [""])[-1]

    @property
    def refused(self) -> bool:
        """Whether it ended as after a mistake of the user: with one line and exit code 2"""
        lines = [line for line in self.err.splitlines() if line.startswith("regard: ")]
        return self.code == 2 and lines == [self.line] and not self.traceback

    @property
    def traceback(self) -> bool:
        return "Traceback (most recent call last)" in self.err

    def __str__(self) -> str:
        end = "hung" if self.hung else f"signal {-self.code}" if self.code < 0 else f"exit code {self.code}"
        return f"`regard {self.verb}` {end}: {self.line[:300]}"


class Command:
    """A running command."""

    def __init__(self, *arguments: object, cache: Path, trap: Trap | None = None, watch: Path | None = None) -> None:
        """Start `regard ARGUMENTS`. Changes below `watch` are counted, by default those in the folder of `cache`."""
        self.verb = str(arguments[0])
        self._files: list[IO[bytes]] = [tempfile.TemporaryFile() for _ in range(4)]  # noqa: SIM115
        sys.stdout.flush()
        sys.stderr.flush()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})  # until the fork can handle it
        self._started = time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            _run(arguments, cache, trap, watch or cache.parent, [file.fileno() for file in self._files])
        self._descriptor = os.pidfd_open(self.pid)

    def running(self, seconds: float = 0.0) -> bool:
        """Wait for its end, at most `seconds`; return whether it is still running."""
        return not select.select([self._descriptor], [], [], max(0.0, seconds))[0]

    def wait_for_event(self, number: int) -> bool:
        """Wait for its `number`-th change of a file, or its end; return whether it is still running."""
        log = self._files[2].fileno()
        while self.running(0.001) and os.pread(log, os.fstat(log).st_size, 0).count(b"\n") < number:
            pass
        return self.running()

    def send(self, number: int) -> None:
        os.kill(self.pid, number)

    def record_stack(self) -> None:
        """Make the process write down its stack, wherever it is."""
        self.send(signal.SIGUSR1)
        size, deadline = 0, time.monotonic() + 0.5
        while time.monotonic() < deadline and self.running(0.002):
            before, size = size, os.fstat(self._files[3].fileno()).st_size
            if size == before > 0:
                return

    def kill(self) -> None:
        if self.running():
            self.record_stack()
            self.send(signal.SIGKILL)

    def wait(self, limit: float = LIMIT) -> Done:
        """Wait for its end. A command that takes longer than `limit` seconds is killed."""
        hung = self.running(limit)
        if hung:
            self.kill()
        _, status = os.waitpid(self.pid, 0)
        seconds = time.monotonic() - self._started
        os.close(self._descriptor)
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)  # what it may have started
        out, err, events, stack = (_read_all(file) for file in self._files)
        code = os.waitstatus_to_exitcode(status)
        return Done(self.verb, code, out, err, seconds, tuple(events.splitlines()), stack, hung)


def run(*arguments: object, cache: Path, trap: Trap | None = None, watch: Path | None = None) -> Done:
    """Run `regard ARGUMENTS` to its end."""
    return Command(*arguments, cache=cache, trap=trap, watch=watch).wait()


def fill_disk(folder: Path) -> None:
    """Take all free space of the disk of `folder` with a file `ballast`."""
    with (folder / "ballast").open("ab") as file, suppress(OSError):
        while free := shutil.disk_usage(folder).free:
            os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, free)


def _read_all(file: IO[bytes]) -> str:
    with file:
        file.seek(0)
        return file.read().decode(errors="replace")


def _run(
    arguments: Sequence[object], cache: Path, trap: Trap | None, watch: Path, descriptors: Sequence[int]
) -> NoReturn:
    """Run the command line in this process, which was just forked, and end the process."""
    code = 70
    out, err, log, stack = descriptors
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP):  # ignored after `nohup`
            signal.signal(number, signal.SIG_DFL)
        faulthandler.register(signal.SIGUSR1, file=stack, all_threads=True)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        for source, target in ((os.open(os.devnull, os.O_RDONLY), 0), (out, 1), (err, 2)):
            os.dup2(source, target)
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(i, mode, encoding="utf-8") for i, mode in enumerate("rww"))
        atexit._clear()
        os.environ |= {"REGARD_CACHE": str(cache), "COLUMNS": "200"}
        regard_files._PROCESS = secrets.token_hex(4)  # differs between processes that are not forks of each other
        sys.argv = ["regard", *map(str, arguments)]
        _watch(str(watch.resolve()), log, stack, trap)
        code = _exit_code()
    finally:
        os._exit(code)


def _exit_code() -> int:
    """Run the command line and return the exit code that the interpreter would end with."""
    code = 1
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _watch(folder: str, log: int, stack: int, trap: Trap | None) -> None:
    """Count the changes of files in `folder`, write each into `log`, and spring the trap at its event."""
    count = 0
    trapped = False
    safe: dict[str, int] = {}

    def event(name: str, target: Any) -> None:
        nonlocal count, trapped
        path = _path(target)
        if trapped or not path.startswith(folder):
            return
        count += 1
        os.write(log, f"{name} {path}\n".encode())
        if trap and count == trap.event:
            trapped = True  # what the trap does is not counted
            faulthandler.dump_traceback(stack)
            trap.spring(name, Path(path), safe.get(path, 0))
        if name in ("open", "fsync") and Path(path).is_file():
            safe[path] = Path(path).stat().st_size if name == "fsync" else safe.get(path, Path(path).stat().st_size)

    def audit(name: str, arguments: tuple[Any, ...]) -> None:
        if name == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR):
            event("create" if arguments[2] & os.O_TRUNC else "open", arguments[0])
        elif name in WRITES:
            event(name.removeprefix("os."), arguments[name == "os.rename"])  # the new name

    def fsync(descriptor: int) -> None:
        event("fsync", descriptor)
        real_fsync(descriptor)

    real_fsync, os.fsync = os.fsync, fsync
    sys.addaudithook(audit)


def _path(target: Any) -> str:
    """Return the path of a file name or descriptor."""
    try:
        path = Path(f"/proc/self/fd/{target}").readlink() if isinstance(target, int) else Path(os.fsdecode(target))
    except (OSError, TypeError):
        return ""
    return str(path.absolute())
