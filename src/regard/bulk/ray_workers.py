"""Workers on a Ray cluster: actors on any of its nodes, which are replaced when they or their nodes die.

The driver, which is this process, sends lines and model files to the actors and writes what they return. Nodes need no
shared disk, and only the same version of regard.
"""

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from regard import __version__
from regard.bulk.line_translator import PartWorker, TranslationWork
from regard.bulk.part import LinePart
from regard.bulk.worker_pool import Reply
from regard.bundle_files import read_files
from regard.errors import UserError
from regard.manifest import read_regular
from regard.ray_cluster import check_ray_is_installed, connect_to_ray, disconnect_from_ray


def check_ray(address: str, device: str | None) -> None:
    """Refuse a cluster that cannot be used."""
    check_ray_is_installed()
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
        connect_to_ray(self._address)
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
        self._actors.clear()  # which ends them
        self._pending.clear()
        disconnect_from_ray()

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


def _contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a model directory."""
    return {name: read_regular(path) for name, path in read_files(folder).items()}
