"""How many workers translate, and where they run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from regard.bulk.line_translator import TranslationWork
from regard.bulk.local_workers import ThisProcess, WorkerProcesses
from regard.bulk.worker_pool import WorkerPool
from regard.threads import threads_to_use


@dataclass(frozen=True)
class Workers:
    """The choice of the user. Translations do not depend on it, except by the rounding of different devices."""

    n: int | None = None
    """By default one per GPU or, without any, one per core"""
    ray: str | None = None
    """The address of a Ray cluster, or "local"; None: processes of this machine"""
    device: str | None = None

    def __post_init__(self) -> None:
        if self.ray is not None:
            from regard.bulk.ray_workers import check_ray

            check_ray(self.ray, self.device)

    def open(self, work: TranslationWork, n_parts: int, progress: Callable[[int], None]) -> WorkerPool:
        """Return the workers for so many parts. `progress` is called by a worker that is this process itself."""
        if self.ray is not None:
            from regard.bulk.ray_workers import RayWorkers

            return RayWorkers(work, self.ray, self.n, n_parts, self.device)
        devices = self.devices()[:n_parts]
        if len(devices) == 1:
            return ThisProcess(work, devices[0], progress)
        return WorkerProcesses(work, devices)

    def devices(self) -> Sequence[str]:
        """Return the device of each worker on this machine."""
        gpus = [f"cuda:{i}" for i in range(torch.cuda.device_count())] if self.device in (None, "cuda") else []
        places = gpus or [self.device or "cpu"]
        on_cpu = places == ["cpu"]
        n = self.n or (threads_to_use() if on_cpu else len(places))
        return [places[i % len(places)] for i in range(n)]
