"""The queue keeps its promises to those who wait: a bound of time, room when others leave, no neighbours' faults."""

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from regard.serve.jobs import Task
from regard.serve.limits import Limits
from regard.serve.queue import Full, Job, Queue, TooLate

LIMITS = Limits(queue=3, queue_seconds=0.3, linger_seconds=0.05)
PATIENT = LIMITS.model_copy(update={"queue_seconds": 5.0})


@dataclass(frozen=True)
class Sum:
    """Done together, and one of them impossible"""

    number: int
    kind = "sum"
    size = 1

    def run(self, jobs: Sequence[Job]) -> list[Any]:
        if any(job.work.number < 0 for job in jobs):
            raise ValueError("a negative number")
        return [job.work.number + 1 for job in jobs]


def busy(seconds: float) -> Task:
    return Task(lambda job: time.sleep(seconds) or "done")


def test_who_waits_too_long_is_told_so_while_the_worker_is_busy() -> None:
    async def scene() -> float:
        queue = Queue(LIMITS)
        first = asyncio.ensure_future(queue.put([busy(1.5)]))
        await asyncio.sleep(0.15)
        start = time.monotonic()
        with pytest.raises(TooLate):
            await queue.put([busy(0)])
        waited = time.monotonic() - start
        assert await first == ["done"]
        return waited

    assert asyncio.run(scene()) < 1.0


def test_who_leaves_makes_room() -> None:
    async def scene() -> None:
        queue = Queue(PATIENT)
        first = asyncio.ensure_future(queue.put([busy(0.4)]))
        await asyncio.sleep(0.15)
        others = [asyncio.ensure_future(queue.put([busy(0)])) for _ in range(2)]
        await asyncio.sleep(0.01)
        with pytest.raises(Full):
            queue.submit([busy(0)])
        for other in others:
            other.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        assert queue.depth == 1
        assert await asyncio.gather(first, queue.put([busy(0)])) == [["done"], ["done"]]

    asyncio.run(scene())


def test_a_neighbours_fault_is_its_own() -> None:
    async def scene() -> list[Any]:
        queue = Queue(PATIENT)
        asked = (queue.put([Sum(n)]) for n in (1, -1, 2))
        return list(await asyncio.gather(*asked, return_exceptions=True))

    one, fault, two = asyncio.run(scene())
    assert (one, two) == ([2], [3]) and isinstance(fault, ValueError)


def test_what_nobody_waits_for_is_not_done() -> None:
    done = threading.Event()
    queue = Queue(LIMITS)
    [job] = queue.submit([Task(lambda job: done.set())])
    job.gone.set()
    with pytest.raises(TooLate):
        job.result.result(2)
    assert not done.is_set()
