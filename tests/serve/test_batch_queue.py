"""The queue: time limits, room for others when a client leaves, errors of one job only, closing."""

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar

import pytest

from regard.serve.batch_queue import (
    PAUSED,
    FunctionJob,
    JobQueue,
    JobTimeout,
    Pause,
    QueueClosed,
    QueuedJob,
    QueueFull,
    QueueName,
)
from regard.serve.limits import Limits

LIMITS = Limits(queue=3, queue_seconds=0.3, linger_seconds=0.05)
PATIENT = LIMITS.model_copy(update={"queue_seconds": 5.0})


@dataclass(frozen=True)
class AddOne:
    """Jobs that run in one batch, which fails if one of the numbers is negative"""

    number: int
    queue: ClassVar[QueueName] = "translate"
    batch_key = "add"
    size = 1

    def run(self, batch: Sequence[QueuedJob]) -> list[int | None]:
        if any(queued.job.number < 0 for queued in batch):
            raise ValueError("a negative number")
        return [queued.job.number + 1 for queued in batch]


def sleep(seconds: float) -> FunctionJob[str]:
    return FunctionJob(lambda queued: time.sleep(seconds) or "done", "generate")  # type: ignore[func-returns-value]


def test_a_job_that_waits_too_long_fails_while_the_worker_is_busy() -> None:
    async def run() -> float:
        queue = JobQueue(LIMITS)
        first = asyncio.ensure_future(queue.put([sleep(1.5)]))
        await asyncio.sleep(0.15)
        start = time.monotonic()
        with pytest.raises(QueueFull):
            await queue.put([sleep(0)])
        waited = time.monotonic() - start
        assert await first == ["done"]
        return waited

    assert asyncio.run(run()) < 1.0


def test_a_single_client_does_not_wait_for_others() -> None:
    async def run(n: int) -> float:
        queue, start = JobQueue(Limits(linger_seconds=0.5)), time.monotonic()
        for _ in range(3):
            await asyncio.gather(*(queue.put([AddOne(i)]) for i in range(n)))
        return time.monotonic() - start

    assert asyncio.run(run(1)) < 0.4
    assert asyncio.run(run(2)) > 1.0, "two clients wait, so that their jobs run in one batch"


def test_clients_that_leave_make_room() -> None:
    async def run() -> None:
        queue = JobQueue(PATIENT)
        first = asyncio.ensure_future(queue.put([sleep(0.4)]))
        await asyncio.sleep(0.15)
        others = [asyncio.ensure_future(queue.put([sleep(0)])) for _ in range(2)]
        await asyncio.sleep(0.01)
        with pytest.raises(QueueFull):
            queue.submit([sleep(0)])
        for other in others:
            other.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        assert queue.depth == 1
        assert await asyncio.gather(first, queue.put([sleep(0)])) == [["done"], ["done"]]

    asyncio.run(run())


def test_an_error_fails_only_the_job_that_caused_it() -> None:
    async def run() -> list[object]:
        queue = JobQueue(PATIENT)
        requests = (queue.put([AddOne(number)]) for number in (1, -1, 2))
        return list(await asyncio.gather(*requests, return_exceptions=True))

    one, error, two = asyncio.run(run())
    assert (one, two) == ([2], [3]) and isinstance(error, ValueError)


def test_a_job_without_a_client_is_not_run() -> None:
    done = threading.Event()
    queue = JobQueue(LIMITS)
    [queued] = queue.submit([FunctionJob(lambda queued: done.set(), "generate")])
    queued.abandoned.set()
    with pytest.raises(QueueFull):
        queued.result.result(2)
    assert not done.is_set()


def test_closing_refuses_waiting_jobs_and_finishes_the_running_one() -> None:
    async def run() -> list[object]:
        queue = JobQueue(PATIENT)
        running = asyncio.ensure_future(queue.put([sleep(0.4)]))
        await asyncio.sleep(0.15)
        waiting = [asyncio.ensure_future(queue.put([sleep(0)])) for _ in range(2)]
        await asyncio.sleep(0.01)
        await asyncio.to_thread(queue.close)
        results = list(await asyncio.gather(running, *waiting, return_exceptions=True))
        assert queue.depth == 0
        with pytest.raises(QueueClosed):
            queue.submit([sleep(0)])
        return results

    running, *waiting = asyncio.run(run())
    assert running == ["done"]
    assert [type(error) for error in waiting] == [QueueClosed, QueueClosed]


@dataclass(frozen=True)
class LongJob:
    """A job that runs in portions, and notes its name in a list at each of them"""

    name: str
    n_portions: int
    log: list[str]
    size = 1
    queue: QueueName = "translate"

    @property
    def batch_key(self) -> str:
        return self.name

    def run(self, batch: Sequence[QueuedJob]) -> list[str | Pause | None]:
        time.sleep(0.1)
        self.log.append(self.name)
        return [self.name if self.log.count(self.name) == self.n_portions else PAUSED]


def test_a_job_that_runs_in_portions_lets_others_run_between_them() -> None:
    async def run() -> tuple[list[list[str]], list[str], JobQueue]:
        queue, log = JobQueue(LIMITS.model_copy(update={"queue_seconds": 1.0})), list[str]()  # for one of several waits
        jobs = [LongJob("long", 4, log), LongJob("short", 1, log), LongJob("other", 2, log)]
        return await asyncio.gather(*(queue.put([job]) for job in jobs)), log, queue

    results, log, queue = asyncio.run(run())
    queue.close()  # the last job is counted after its result has been passed on
    assert results == [["long"], ["short"], ["other"]]
    assert log == ["long", "short", "other", "long", "other", "long", "long"]
    assert (queue.done, queue.batches, queue.depth) == (3, 7, 0)


@dataclass(frozen=True)
class TimedJob(LongJob):
    """Notes the seconds that are left before each portion"""

    seconds_left: list[float] = field(default_factory=list)

    def run(self, batch: Sequence[QueuedJob]) -> list[str | Pause | None]:
        self.seconds_left.append(batch[0].deadline - time.monotonic())
        result = super().run(batch)
        return [None] if batch[0].is_cancelled() else result


def test_all_portions_of_a_job_have_a_time_limit_together() -> None:
    async def run(text_seconds: float) -> list[float]:
        queue, job = JobQueue(PATIENT.model_copy(update={"text_seconds": text_seconds})), TimedJob("long", 4, [])
        await queue.put([job])
        return job.seconds_left

    seconds_left = asyncio.run(run(10.0))
    assert len(seconds_left) == 4 and all(later < earlier - 0.05 for earlier, later in pairwise(seconds_left))
    with pytest.raises(JobTimeout):
        asyncio.run(run(0.25))


def test_closing_refuses_a_job_that_has_more_to_do() -> None:
    async def run() -> None:
        queue = JobQueue(PATIENT)
        waiting = asyncio.ensure_future(queue.put([LongJob("long", 9, [])]))
        await asyncio.sleep(0.05)
        await asyncio.to_thread(queue.close)
        with pytest.raises(QueueClosed):
            await waiting

    asyncio.run(run())


def test_long_texts_take_more_places() -> None:
    queue = JobQueue(PATIENT.model_copy(update={"linger_seconds": 1.0}))

    @dataclass(frozen=True)
    class Sized(AddOne):
        size: int = 0  # type: ignore[misc]

    queue.batch = [QueuedJob(AddOne(1))]
    with pytest.raises(QueueFull):
        queue.submit([Sized(1, 4_000)])
    queue.submit([Sized(1, 3_999)])


def test_stopping_ends_a_job_that_runs() -> None:
    def run_until_cancelled(queued: QueuedJob) -> None:
        while not queued.is_cancelled():
            time.sleep(0.01)

    async def run() -> None:
        queue = JobQueue(PATIENT)
        running = asyncio.ensure_future(queue.put([FunctionJob(run_until_cancelled, "generate")]))
        await asyncio.sleep(0.1)
        assert not running.done()
        queue.stop()
        with pytest.raises(QueueClosed):
            await asyncio.wait_for(running, 2)

    asyncio.run(run())


def test_waiting_times_are_counted() -> None:
    async def run() -> JobQueue:
        queue = JobQueue(PATIENT)
        await asyncio.gather(*(queue.put([sleep(0.3)]) for _ in range(2)))
        return queue

    waits = asyncio.run(run()).waits
    counts = dict(waits.cumulative())
    assert 0.25 < waits.sum < 0.6 and (counts["0.25"], counts["1.0"], counts["+Inf"]) == (1, 2, 2)
