"""Workers on a Ray cluster: actors on any of its nodes, which are replaced when they or their nodes die.

The driver, which is this process, sends lines and model files to the actors and writes what they return. Nodes need no
shared disk, and only the same version of regard.
"""

import logging
import os
import secrets
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from regard import __version__
from regard.bulk.line_translator import PartWorker, TranslationWork
from regard.bulk.part import LinePart
from regard.bulk.worker_pool import Reply
from regard.bundle_files import read_files
from regard.errors import UserError
from regard.manifest import read_regular

LOCAL = "local"
_PATIENCE = 10.0  # seconds in which a cluster must accept a connection


def check_ray(address: str, device: str | None) -> None:
    """Refuse a cluster that cannot be used."""
    if find_spec("ray") is None:
        raise UserError("--ray needs a package: pip install 'regard[ray]'")
    if device not in (None, "cpu", "cuda"):
        raise UserError(f"--device {device}: with --ray, choose cpu or cuda; Ray chooses which")


class RayActor:
    """What runs on a node: a PartWorker, and the model files that it was sent."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._worker = PartWorker()

    def start(self, work: dict[str, Any], files: Mapping[str, Mapping[str, bytes]], device: str) -> dict[str, Any]:
        """Write the model files to this node, and load them."""
        if self._version != __version__:
            return {"error": f"a node of the Ray cluster has regard {__version__}, not {self._version}; install that"}
        folder = Path(tempfile.mkdtemp(prefix="regard-"))
        try:
            for model, contents in files.items():
                for name, content in contents.items():
                    path = folder / model / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(content)
            folders = {model: folder / model for model in files}
            here = TranslationWork.parse(work).with_folders(folders)
            return self._worker.start(here.model_dump(mode="json"), device)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def translate(self, lines: list[str], first: int) -> dict[str, Any]:
        return self._worker.translate(lines, first)


class RayWorkers:
    """Actors, one per GPU of the cluster or, without any, one per core; each is given one part at a time."""

    def __init__(self, work: TranslationWork, address: str, n: int | None, n_parts: int, device: str | None) -> None:
        self._work, self._address, self._n, self._n_parts, self._device = work, address, n, n_parts, device
        self._actors: list[Any] = []
        self._pending: dict[Any, int] = {}
        """The calls that have not returned, and their workers"""

    def __enter__(self) -> Self:
        _connect(self._address)
        import ray

        resources = ray.cluster_resources()
        n_gpus = 0 if self._device == "cpu" else int(resources.get("GPU", 0))
        if self._device == "cuda" and not n_gpus:
            raise UserError("--device cuda: no node of the Ray cluster has a GPU; leave it out")
        self._device = "cuda" if n_gpus else "cpu"
        self._make: Any = ray.remote(num_gpus=int(n_gpus > 0), num_cpus=int(n_gpus == 0))(RayActor).remote
        self._files = ray.put({name: _contents(folder) for name, folder in self._work.folders.items()})
        n = self._n or n_gpus or max(1, int(resources.get("CPU", 1)))
        self._actors = [None] * min(n, self._n_parts)
        for worker in range(len(self._actors)):
            self._start(worker)
        return self

    def __exit__(self, *error: object) -> None:
        import ray

        self._actors.clear()  # which ends them
        self._pending.clear()
        with suppress(Exception):
            ray.shutdown()

    def send(self, worker: int, part: LinePart) -> None:
        self._pending[self._actors[worker].translate.remote(part.lines, part.first)] = worker

    def wait(self) -> Reply:
        import ray

        [call], _ = ray.wait(list(self._pending), num_returns=1)
        worker = self._pending.pop(call)
        try:
            return Reply(worker, ray.get(call))
        except ray.exceptions.RayActorError:  # its process or node has died
            self._start(worker)
            return Reply(worker, None)

    def _start(self, worker: int) -> None:
        """Make an actor on any node that has room for it, now or later."""
        self._actors[worker] = actor = self._make(__version__)
        work = self._work.model_dump(mode="json")
        self._pending[actor.start.remote(work, self._files, self._device)] = worker


def _connect(address: str) -> None:
    """Connect to a cluster, or start one on this machine that nobody else can use."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address == LOCAL:  # Ray reads this when it is imported
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    import ray

    options: dict[str, Any] = {"include_dashboard": False} if address == LOCAL else {}
    try:
        _check_reachable(address)
        with _kept_signal_handler():
            ray.init(address, logging_level=logging.ERROR, log_to_driver=False, **options)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".")
        raise UserError(
            f"--ray {address}: cannot connect ({reason}); give HOST:PORT of a cluster that this machine is a node of, "
            "auto or local"
        ) from None


@contextmanager
def _kept_signal_handler() -> Iterator[None]:
    """Undo what Ray does to SIGTERM: the command, and not Ray, says how a job ends."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _check_reachable(address: str) -> None:
    """Raise an OSError at once if nobody listens at HOST:PORT; Ray would try for many minutes."""
    host, separator, port = address.rpartition(":")
    if separator and port.isdecimal() and "/" not in host:
        socket.create_connection((host, int(port)), _PATIENCE).close()


def _contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a model directory."""
    return {name: read_regular(path) for name, path in read_files(folder).items()}
