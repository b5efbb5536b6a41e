"""Workers on this machine: this process itself, or processes that are replaced when they die."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Self

import regard
from regard.bulk.line_translator import LineTranslator, TranslationWork
from regard.bulk.part import LinePart
from regard.bulk.worker_pool import Reply


class ThisProcess:
    """A pool of one worker: this process. It cannot be replaced, and needs no time to start."""

    def __init__(self, work: TranslationWork, device: str | None, progress: Callable[[int], None]) -> None:
        self._work, self._device, self._progress = work, device, progress
        self._part: LinePart | None = None

    def __enter__(self) -> Self:
        self._translator = LineTranslator(self._work, self._device)
        return self

    def __exit__(self, *error: object) -> None:
        del self._translator

    def send(self, worker: int, part: LinePart) -> None:
        self._part = part

    def wait(self) -> Reply:
        if self._part is None:
            return Reply(0, {"ready": True})
        return Reply(0, self._translator.translate_part(self._part.lines, self._part.first, self._progress).to_json())


class WorkerProcesses:
    """Processes, one per device of the list; they read parts from standard input and write to standard output."""

    def __init__(self, work: TranslationWork, devices: Sequence[str]) -> None:
        self._work, self._devices = work, devices
        self._processes: list[subprocess.Popen[bytes]] = []
        self._replies: SimpleQueue[tuple[int, bytes]] = SimpleQueue()

    def __enter__(self) -> Self:
        self._processes = [self._start(number) for number in range(len(self._devices))]
        return self

    def __exit__(self, *error: object) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.communicate()

    def send(self, worker: int, part: LinePart) -> None:
        self._write(self._processes[worker], part.to_json())

    def wait(self) -> Reply:
        worker, line = self._replies.get()
        if line:
            return Reply(worker, json.loads(line))
        self._processes[worker].wait()
        self._processes[worker] = self._start(worker)
        return Reply(worker, None)

    def _start(self, number: int) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(
            [sys.executable, "-m", "regard.bulk.worker_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=_environment(),
        )
        self._write(process, {"work": self._work.model_dump(mode="json"), "device": self._devices[number]})
        threading.Thread(target=self._read, args=(number, process), daemon=True).start()
        return process

    def _read(self, number: int, process: "subprocess.Popen[bytes]") -> None:
        """Pass on the replies of a process, and an empty one when it has ended, perhaps in the middle of a reply."""
        assert process.stdout
        with suppress(ValueError, OSError):  # closed at the end of the job
            for line in process.stdout:
                if line.endswith(b"\n"):
                    self._replies.put((number, line))
        self._replies.put((number, b""))

    def _write(self, process: "subprocess.Popen[bytes]", message: dict[str, Any]) -> None:
        """Send a message; if the process has died, its empty reply will say so."""
        assert process.stdin
        with suppress(OSError):
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()


def _environment() -> dict[str, str]:
    """Return the environment of a worker: it finds this regard, and computes with one thread."""
    paths = [str(Path(regard.__file__).parents[1]), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1"}
