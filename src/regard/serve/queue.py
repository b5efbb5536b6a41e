"""The queue before the models: bounded, emptied in batches by one worker, and left by whoever goes away."""

import asyncio
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from regard.serve.limits import Limits


class Full(Exception):
    """More waits than may wait."""

    retry_after = 1
    """Seconds"""


class TooLate(Exception):
    """It waited, or was worked on, for longer than is allowed."""


class Work(Protocol):
    """Something to be done, perhaps together with others of its kind."""

    @property
    def kind(self) -> Any:
        """What may be done in one batch is equal here"""

    @property
    def size(self) -> int:
        """What is of like size is done together"""

    def run(self, jobs: Sequence["Job"]) -> Sequence[Any]:
        """Do all of them, of this kind → a result each; jobs whose `gone` is set may be skipped."""


@dataclass(eq=False)
class Job:
    work: Any
    deadline: float
    result: "Future[Any]" = field(default_factory=Future)
    gone: threading.Event = field(default_factory=threading.Event)
    """Nobody waits for it any more"""
    started: float | None = None

    def expired(self, limits: Limits) -> bool:
        now = time.monotonic()
        return now > self.deadline or (self.started is not None and now - self.started > limits.decode_seconds)


class Queue:
    """`await put(work)` → its result. A thread does the work; the event loop stays free."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.waiting: list[Job] = []
        self.running = 0
        self.done = self.batches = self.refused = self.given_up = 0
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="decode", daemon=True)
        self._thread.start()

    @property
    def depth(self) -> int:
        return len(self.waiting) + self.running

    def submit(self, works: Sequence[Work]) -> list[Job]:
        """All of them, or Full"""
        deadline = time.monotonic() + self.limits.queue_seconds
        jobs = [Job(work, deadline) for work in works]
        with self._changed:
            if self._closed or self.depth + len(jobs) > self.limits.queue:
                self.refused += len(jobs)
                raise Full
            self.waiting += jobs
            self._changed.notify()
        return jobs

    async def put(self, works: Sequence[Work]) -> list[Any]:
        """The results, in order; whoever stops waiting takes the work out of the queue."""
        jobs = self.submit(works)
        late = asyncio.get_running_loop().call_later(self.limits.queue_seconds, self._leave, jobs, TooLate())
        try:
            return list(await asyncio.gather(*(asyncio.wrap_future(job.result) for job in jobs)))
        finally:
            late.cancel()
            for job in jobs:
                job.gone.set()
            self._leave(jobs, None)

    def _leave(self, jobs: Sequence[Job], error: Exception | None) -> None:
        """Take out of the queue what still waits, so that others have the room"""
        with self._changed:
            waiting = [job for job in jobs if job in self.waiting]
            for job in waiting:
                self.waiting.remove(job)
            self.given_up += len(waiting)
        for job in waiting:
            _settle(job, error or TooLate())

    def close(self, seconds: float = 10.0) -> None:
        """Let what runs finish; what waits is refused."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(seconds)

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self.waiting and not self._closed:
                    self._changed.wait()
                if self._closed:
                    for job in self.waiting:
                        _settle(job, Full())
                    return
            time.sleep(self.limits.linger_seconds)
            jobs = self._take()
            if jobs:
                self._run(jobs)

    def _take(self) -> list[Job]:
        """The oldest, and those of its kind that are nearest to it in size"""
        with self._changed:
            for job in [job for job in self.waiting if job.gone.is_set() or job.expired(self.limits)]:
                self.waiting.remove(job)
                self.given_up += 1
                _settle(job, TooLate())
            if not self.waiting:
                return []
            first = self.waiting[0]
            alike = [job for job in self.waiting if job.work.kind == first.work.kind]
            alike.sort(key=lambda job: abs(job.work.size - first.work.size))
            jobs = alike[: self.limits.batch]
            for job in jobs:
                self.waiting.remove(job)
            self.running += len(jobs)
            return jobs

    def _run(self, jobs: list[Job]) -> None:
        now = time.monotonic()
        for job in jobs:
            job.started, job.deadline = now, now + self.limits.decode_seconds
        try:
            self._settle_all(jobs)
        finally:
            with self._changed:
                self.running -= len(jobs)
                self.done += len(jobs)
                self.batches += 1

    def _settle_all(self, jobs: list[Job]) -> None:
        try:
            results = jobs[0].work.run(jobs)
        except Exception as error:  # whatever it is, those who wait are told, and the worker goes on
            if len(jobs) == 1:
                _settle(jobs[0], error)
                return
            for job in jobs:  # what one asked for may be wrong; its neighbours have nothing to do with it
                self._settle_all([job])
            return
        for job, result in zip(jobs, results, strict=True):
            self.given_up += result is None
            _settle(job, TooLate() if result is None else result)


def _settle(job: Job, result: Any) -> None:
    if not job.result.set_running_or_notify_cancel():
        return
    if isinstance(result, BaseException):
        job.result.set_exception(result)
    else:
        job.result.set_result(result)
