"""Where the shards of a job are worked on: in this process, in several, or on a Ray cluster."""

import os
import signal
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from typing import Any, TypeVar

from regard.errors import UserError
from regard.ray_cluster import connect_to_ray, disconnect_from_ray

Item = TypeVar("Item")
Result = TypeVar("Result")

_RETRIES = 5  # of a task whose machine fails


class TaskPool(ABC):
    """Calls functions of a module for many items. Items are made one after the other, when there is room for them."""

    n_workers: int

    @abstractmethod
    def run(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield the result for each item, in order."""


class OneProcess(TaskPool):
    """One item after the other, here."""

    n_workers = 1

    def run(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        return map(function, items)


class Processes(TaskPool):
    """Several processes of this machine."""

    def __init__(self, executor: ProcessPoolExecutor, n_workers: int) -> None:
        self._executor, self.n_workers = executor, n_workers

    def run(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        pending: deque[Future[Result]] = deque()
        try:
            for item in items:
                pending.append(self._executor.submit(function, item))
                if len(pending) > self.n_workers:  # one waits, so that no process does
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BrokenProcessPool:
            raise UserError(
                "a process of the preparation was killed, perhaps because memory ran out; run the same command again, "
                "with fewer --workers if need be: what is done stays"
            ) from None


class RayCluster(TaskPool):
    """A Ray cluster; a task whose machine fails is run again on another one."""

    def __init__(self) -> None:
        import ray

        self._ray: Any = ray

    @property
    def n_workers(self) -> int:  # type: ignore[override]
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def run(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        remote = self._ray.remote(max_retries=_RETRIES, num_cpus=1)(function)
        pending: deque[Any] = deque()
        for item in items:
            pending.append(remote.remote(item))
            if len(pending) > 2 * self.n_workers:
                yield self._result(pending.popleft())
        while pending:
            yield self._result(pending.popleft())

    def _result(self, reference: Any) -> Any:
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise (error.cause if isinstance(error.cause, UserError) else error) from None
        except self._ray.exceptions.RayError as error:
            reason = str(error).strip().partition("\n")[0]
            raise UserError(
                f"--ray: the cluster failed ({reason}); run the same command again: what is done stays"
            ) from None


@contextmanager
def open_pool(workers: int | None = None, ray_address: str | None = None) -> Iterator[TaskPool]:
    """Open a pool of processes, by default one per core, or connect to a Ray cluster."""
    if ray_address is not None:
        connect_to_ray(ray_address)
        try:
            yield RayCluster()
        finally:
            disconnect_from_ray()
        return
    workers = workers or len(os.sched_getaffinity(0))
    if workers == 1:
        yield OneProcess()
        return
    with ProcessPoolExecutor(workers, get_context("spawn"), _start_worker) as executor:
        try:
            yield Processes(executor, workers)
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise


def _start_worker() -> None:
    """Leave Ctrl-C to the main process, and end when that ends, even if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
