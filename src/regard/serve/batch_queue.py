"""A bounded queue of jobs that one thread runs in batches. A job whose client has gone is dropped."""

import asyncio
import math
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeVar

from regard.serve.histogram import Histogram
from regard.serve.limits import Limits

R = TypeVar("R")
ResultT = TypeVar("ResultT", covariant=True)
QueueName = Literal["translate", "generate", "trace", "export"]
"""Each queue has a worker, so that jobs of one kind do not wait for those of another"""


_WATCH_SECONDS = 0.02  # the shortest time between two looks at the deadlines of a request's jobs

_CHARS_PER_PLACE = 2_000  # a long text takes more places in the queue, because it takes more time


class QueueFull(Exception):
    """The queue is full, or the job has waited in it for longer than the limits allow."""

    retry_after = 1
    """Seconds"""


class QueueClosed(Exception):
    """The server stops; another replica may take the job."""


class JobTimeout(Exception):
    """The job ran for longer than the limits allow."""


class Pause:
    """What a job returns that has done a part of its work: it goes to the end of the queue."""


PAUSED = Pause()


class Job(Protocol[ResultT]):
    """Something that the worker runs, possibly together with similar jobs."""

    @property
    def queue(self) -> QueueName:
        """The queue that the job is for"""

    @property
    def batch_key(self) -> Hashable:
        """Jobs with equal keys may run in one batch"""

    @property
    def size(self) -> int:
        """Jobs of similar size are put into one batch"""

    def run(self, batch: Sequence["QueuedJob"]) -> Sequence[ResultT | Pause | None]:
        """Run a batch of such jobs, this one included; return one result each, None for a job that was given up."""


@dataclass(frozen=True)
class FunctionJob(Generic[R]):
    """A function that runs in the worker, by itself. It returns None if it was cancelled."""

    function: Callable[["QueuedJob"], R | None]
    queue: QueueName
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
    entered: float = 0.0
    """When the job began to wait (monotonic time)"""
    deadline: float = math.inf
    """When the job must have started or, once it runs, have ended (monotonic time)"""
    seconds: float = 0.0
    """How long it has run so far, in portions"""
    result: "Future[Any]" = field(default_factory=Future)
    abandoned: threading.Event = field(default_factory=threading.Event)
    """Set when nobody waits for the result any more"""

    @property
    def places(self) -> int:
        """How many places of the queue the job takes"""
        return 1 + int(self.job.size) // _CHARS_PER_PLACE

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
        self.batch: list[QueuedJob] = []
        """The jobs that run"""
        self.waits = Histogram()
        """How long jobs waited before they ran; one that runs in portions waits more than once"""
        self.done = self.batches = self.refused = self.given_up = 0
        self._changed = threading.Condition()
        self._closed = False
        self._at_start = at_start
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def waiting_places(self) -> int:
        return _places(self.waiting)

    @property
    def running_places(self) -> int:
        return _places(self.batch)

    @property
    def depth(self) -> int:
        """Places of jobs that wait or run"""
        return self.waiting_places + self.running_places

    def submit(self, jobs: Sequence[Job[Any]]) -> list[QueuedJob]:
        """Append all jobs, or none and raise QueueFull or QueueClosed. An empty queue has room for any jobs."""
        queued = [QueuedJob(job) for job in jobs]
        with self._changed:
            if self._closed:
                raise QueueClosed
            if self.depth + min(_places(queued), self.limits.queue) > self.limits.queue:
                self.refused += len(queued)
                raise QueueFull
            self._append(queued)
        return queued

    def put(self, jobs: Sequence[Job[R]]) -> "asyncio.Future[list[R]]":
        """Return the results in order. A caller that cancels the future removes its jobs from the queue."""
        queued = self.submit(jobs)
        loop = asyncio.get_running_loop()
        results: asyncio.Future[list[R]] = loop.create_future()
        timer = loop.call_later(self.limits.queue_seconds, lambda: withdraw_late())

        def withdraw_late() -> None:
            """Remove jobs that wait for too long. One that runs in portions waits more than once."""
            nonlocal timer
            self._withdraw([each for each in queued if each.is_cancelled()])
            seconds = min(each.deadline for each in queued) - time.monotonic()
            timer = loop.call_later(min(max(seconds, _WATCH_SECONDS), self.limits.queue_seconds), withdraw_late)

        def pass_on() -> None:
            if not results.done() and (settled := _settled(queued)) is not None:
                results.set_exception(settled) if isinstance(settled, BaseException) else results.set_result(settled)

        def leave(_: object) -> None:
            timer.cancel()
            for each in queued:
                each.abandoned.set()
            self._withdraw(queued)

        results.add_done_callback(leave)
        for each in queued:
            each.result.add_done_callback(lambda _: loop.call_soon_threadsafe(pass_on))
        return results

    def stop(self) -> None:
        """Refuse all jobs, also those that wait, and let those that run end at their next step."""
        with self._changed:
            self._closed = True
            refused, self.waiting = self.waiting, []
            for queued in self.batch:
                queued.abandoned.set()
            self._changed.notify()
        for queued in refused:
            queued.settle(QueueClosed())

    def close(self, seconds: float = 10.0) -> None:
        """Stop, and wait for the end of the thread."""
        self.stop()
        self._thread.join(seconds)

    def _withdraw(self, jobs: Sequence[QueuedJob]) -> None:
        """Remove those of the jobs that still wait, which makes room for others."""
        with self._changed:
            removed = [queued for queued in jobs if queued in self.waiting]
            for queued in removed:
                self.waiting.remove(queued)
            self.given_up += len(removed)
        for queued in removed:
            queued.settle(QueueFull())

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
            now = time.monotonic()
            for queued in batch:
                self.waiting.remove(queued)
                self.waits.add(now - queued.entered)
            self.batch = batch
            return batch

    def _run(self, batch: list[QueuedJob]) -> None:
        begin = time.monotonic()
        for queued in batch:
            queued.deadline = begin + min(self.limits.decode_seconds, self.limits.text_seconds - queued.seconds)
        paused = list[QueuedJob]()
        try:
            paused = self._run_and_settle(batch)
        finally:
            for queued in paused:
                queued.seconds += time.monotonic() - begin
            with self._changed:
                self.batch = []
                self.done += len(batch) - len(paused)
                self.batches += 1
                refused = paused if self._closed else []
                self._append([] if self._closed else paused)
            for queued in refused:
                queued.settle(QueueClosed())

    def _append(self, jobs: Sequence[QueuedJob]) -> None:
        """Let jobs wait. The caller holds the lock."""
        now = time.monotonic()
        for queued in jobs:
            queued.entered, queued.deadline = now, now + self.limits.queue_seconds
        self.waiting += jobs
        self._changed.notify()

    def _run_and_settle(self, batch: list[QueuedJob]) -> list[QueuedJob]:
        """Run a batch; return those of its jobs that have more to do."""
        try:
            results = batch[0].job.run(batch)
        except Exception as error:  # any error is passed on to whoever waits, and the worker continues
            if len(batch) == 1:
                batch[0].settle(error)
                return []
            # One job of the batch failed; run alone, the others may not.
            return [paused for queued in batch for paused in self._run_and_settle([queued])]
        with self._changed:
            self.given_up += sum(result is None for result in results)
        paused = list[QueuedJob]()
        for queued, result in zip(batch, results, strict=True):
            if isinstance(result, Pause):
                paused.append(queued)
            else:
                given_up = QueueClosed() if self._closed else JobTimeout()
                queued.settle(given_up if result is None else result)
        return paused


def _places(jobs: Sequence[QueuedJob]) -> int:
    return sum(queued.places for queued in jobs)


def _settled(jobs: Sequence[QueuedJob]) -> list[Any] | BaseException | None:
    """Return the error of one of the jobs or the results of all; None if there is neither yet."""
    done = [queued.result for queued in jobs if queued.result.done()]
    if error := next(filter(None, (result.exception() for result in done)), None):
        return error
    return [result.result() for result in done] if len(done) == len(jobs) else None
