"""A bounded queue of jobs that one thread runs in batches. A job whose client has gone is dropped."""

import asyncio
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from regard.serve.limits import Limits

R = TypeVar("R")
ResultT = TypeVar("ResultT", covariant=True)


class QueueFull(Exception):
    """The queue is full or closed."""

    retry_after = 1
    """Seconds"""


class JobTimeout(Exception):
    """The job waited or ran for longer than the limits allow."""


class Job(Protocol[ResultT]):
    """Something that the worker runs, possibly together with similar jobs."""

    @property
    def batch_key(self) -> Hashable:
        """Jobs with equal keys may run in one batch"""

    @property
    def size(self) -> int:
        """Jobs of similar size are put into one batch"""

    def run(self, batch: Sequence["QueuedJob"]) -> Sequence[ResultT | None]:
        """Run a batch of such jobs, this one included; return one result each, None for a job that was given up."""


@dataclass(frozen=True)
class FunctionJob(Generic[R]):
    """A function that runs in the worker, by itself. It returns None if it was cancelled."""

    function: Callable[["QueuedJob"], R | None]
    size = 0

    @property
    def batch_key(self) -> Hashable:
        return id(self)

    def run(self, batch: Sequence["QueuedJob"]) -> list[R | None]:
        [queued] = batch
        return [self.function(queued)]


@dataclass(eq=False)
class QueuedJob:
    job: Any
    deadline: float
    """When the job must have started or, once it runs, have ended (monotonic time)"""
    result: "Future[Any]" = field(default_factory=Future)
    abandoned: threading.Event = field(default_factory=threading.Event)
    """Set when nobody waits for the result any more"""

    def is_cancelled(self) -> bool:
        return self.abandoned.is_set() or time.monotonic() > self.deadline

    def settle(self, result: Any) -> None:
        """Pass a result or an exception to whoever waits."""
        if not self.result.set_running_or_notify_cancel():
            return
        if isinstance(result, BaseException):
            self.result.set_exception(result)
        else:
            self.result.set_result(result)


class JobQueue:
    """`await put(jobs)` returns their results. A thread runs them, so the event loop stays free.

    A job that is in `waiting` is settled by whoever removes it from there, so each is settled once.
    """

    def __init__(self, limits: Limits, name: str = "worker", at_start: Callable[[], None] = lambda: None) -> None:
        """`at_start` is called in the thread, before the first job."""
        self.limits = limits
        self.waiting: list[QueuedJob] = []
        self.running = 0
        self.done = self.batches = self.refused = self.given_up = 0
        self._changed = threading.Condition()
        self._closed = False
        self._at_start = at_start
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def depth(self) -> int:
        """Jobs that wait or run"""
        return len(self.waiting) + self.running

    def submit(self, jobs: Sequence[Job[Any]]) -> list[QueuedJob]:
        """Append all jobs, or none and raise QueueFull."""
        deadline = time.monotonic() + self.limits.queue_seconds
        queued = [QueuedJob(job, deadline) for job in jobs]
        with self._changed:
            if self._closed or self.depth + len(queued) > self.limits.queue:
                self.refused += len(queued)
                raise QueueFull
            self.waiting += queued
            self._changed.notify()
        return queued

    async def put(self, jobs: Sequence[Job[R]]) -> list[R]:
        """Return the results in order. A caller that stops waiting removes its jobs from the queue."""
        queued = self.submit(jobs)
        timer = asyncio.get_running_loop().call_later(self.limits.queue_seconds, self._withdraw, queued)
        try:
            return list(await asyncio.gather(*(asyncio.wrap_future(each.result) for each in queued)))
        finally:
            timer.cancel()
            for each in queued:
                each.abandoned.set()
            self._withdraw(queued)

    def close(self, seconds: float = 10.0) -> None:
        """Refuse all jobs that wait, and wait for the batch that runs."""
        with self._changed:
            self._closed = True
            refused, self.waiting = self.waiting, []
            self._changed.notify()
        for queued in refused:
            queued.settle(QueueFull())
        self._thread.join(seconds)

    def _withdraw(self, jobs: Sequence[QueuedJob]) -> None:
        """Remove those of the jobs that still wait, which makes room for others."""
        with self._changed:
            removed = [queued for queued in jobs if queued in self.waiting]
            for queued in removed:
                self.waiting.remove(queued)
            self.given_up += len(removed)
        for queued in removed:
            queued.settle(JobTimeout())

    def _work(self) -> None:
        self._at_start()
        batch: list[QueuedJob] = []
        while True:
            with self._changed:
                while not self.waiting and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
            if len(batch) > 1 or len(self.waiting) > 1:  # a single client would wait for nobody
                time.sleep(self.limits.linger_seconds)
            batch = self._next_batch()
            if batch:
                self._run(batch)

    def _next_batch(self) -> list[QueuedJob]:
        """Take the oldest job, and those with the same key that are closest to it in size."""
        self._withdraw([queued for queued in list(self.waiting) if queued.is_cancelled()])
        with self._changed:
            if not self.waiting:
                return []
            first = self.waiting[0].job
            similar = [queued for queued in self.waiting if queued.job.batch_key == first.batch_key]
            similar.sort(key=lambda queued: abs(queued.job.size - first.size))
            batch = similar[: self.limits.batch]
            for queued in batch:
                self.waiting.remove(queued)
            self.running += len(batch)
            return batch

    def _run(self, batch: list[QueuedJob]) -> None:
        deadline = time.monotonic() + self.limits.decode_seconds
        for queued in batch:
            queued.deadline = deadline
        try:
            self._run_and_settle(batch)
        finally:
            with self._changed:
                self.running -= len(batch)
                self.done += len(batch)
                self.batches += 1

    def _run_and_settle(self, batch: list[QueuedJob]) -> None:
        try:
            results = batch[0].job.run(batch)
        except Exception as error:  # any error is passed on to whoever waits, and the worker continues
            if len(batch) == 1:
                batch[0].settle(error)
                return
            for queued in batch:  # one job of the batch failed; run alone, the others may not
                self._run_and_settle([queued])
            return
        with self._changed:
            self.given_up += sum(result is None for result in results)
        for queued, result in zip(batch, results, strict=True):
            queued.settle(JobTimeout() if result is None else result)
