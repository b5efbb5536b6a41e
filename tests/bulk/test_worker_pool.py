"""Parts go to workers that are free; when workers die, each part is still completed exactly once."""

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from regard.bulk.line_report import LineReport
from regard.bulk.line_translator import PartResult
from regard.bulk.part import LinePart
from regard.bulk.worker_pool import Reply, translate_parts
from regard.errors import UserError


class FakePool:
    """Workers that answer in a random order and die at random, or always at the line `poison`."""

    def __init__(self, n: int, seed: int, deaths: float = 0.0, poison: str = "") -> None:
        self.random, self.deaths, self.poison = Random(seed), deaths, poison
        self.starting, self.working = list(range(n)), dict[int, LinePart]()
        self.n_sent = 0

    def __enter__(self) -> "FakePool":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def send(self, worker: int, part: LinePart) -> None:
        assert worker not in self.working and worker not in self.starting
        self.working[worker] = part
        self.n_sent += 1

    def wait(self) -> Reply:
        worker = self.random.choice([*self.starting, *self.working])
        part = self.working.pop(worker, None)
        if self.random.random() < self.deaths or (part and self.poison in part.lines):
            self.starting = list({*self.starting, worker})
            return Reply(worker, None)
        if part is None:
            self.starting.remove(worker)
            return Reply(worker, {"ready": True})
        return Reply(worker, PartResult([line.upper() for line in part.lines], LineReport()).to_json())


def parts(n: int) -> Iterator[LinePart]:
    return (LinePart(Path(str(i)), i, [f"line {i}"]) for i in range(n))


@pytest.mark.parametrize("seed", range(20))
def test_each_part_is_completed_once_whoever_dies(seed: int) -> None:
    pool = FakePool(n=1 + seed % 4, seed=seed, deaths=0.3)
    done = list(translate_parts(pool, parts(40)))
    assert sorted((part.first, *result.rows) for part, result in done) == [(i, f"LINE {i}") for i in range(40)]
    assert pool.n_sent > 40, "nobody died"


def test_a_part_that_kills_every_worker_ends_the_job_after_all_others() -> None:
    pool, done = FakePool(n=3, seed=1, poison="line 7"), deque[int]()
    with pytest.raises(UserError, match=r"10 workers were killed at the lines from 7 on.*same command again"):
        for part, _ in translate_parts(pool, parts(30)):
            done.append(part.first)
    assert sorted(done) == [i for i in range(30) if i != 7]


def test_workers_that_never_start_end_the_job() -> None:
    with pytest.raises(UserError, match="were killed before they were ready"):
        list(translate_parts(FakePool(n=2, seed=1, deaths=1.0), parts(3)))


def test_parts_are_read_only_when_a_worker_is_free_and_before_results_are_written() -> None:
    n_read = 0

    def counted() -> Iterator[LinePart]:
        nonlocal n_read
        for part in parts(50):
            n_read += 1
            yield part

    for n_done, _ in enumerate(translate_parts(FakePool(n=4, seed=3), counted()), start=1):
        assert n_read <= n_done + 4
    pool = FakePool(n=4, seed=3)
    for n_done, _ in enumerate(translate_parts(pool, parts(50)), start=1):
        assert len(pool.working) + len(pool.starting) == 4 or n_done > 46, "nobody waits until a result is written"
