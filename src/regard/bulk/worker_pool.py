"""Parts of a job and the workers that translate them: who gets which part, and what happens when a worker dies."""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from regard.bulk.line_translator import PartResult
from regard.bulk.part import LinePart
from regard.errors import UserError

_DEATHS = 10  # of workers with the same part, or of a worker that was not ready, after which a job gives up


@dataclass(frozen=True)
class Reply:
    """What a worker says: it is ready for its first part, has done so much of a part, or all of it; or it died."""

    worker: int
    content: Mapping[str, Any] | None
    """None: the worker died. It is replaced by another one with the same number, which will be ready some time."""


class WorkerPool(Protocol):
    """Workers that translate parts, numbered from 0. When the block ends, so do they."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    def send(self, worker: int, part: LinePart) -> None:
        """Give a part to a worker that is ready."""
        ...

    def wait(self) -> Reply:
        """Wait for the next reply of any worker: {"ready": …}, {"done": n lines}, {"error": …} or a PartResult."""
        ...


class _PartQueue:
    """The parts to translate. One whose worker died comes next; one that lost several workers comes last."""

    def __init__(self, parts: Iterator[LinePart]) -> None:
        self._parts = parts
        self._next, self._last = deque[LinePart](), deque[LinePart]()

    def get(self) -> LinePart | None:
        """Return the next part; None: there is none."""
        if self._next:
            return self._next.popleft()
        return next(self._parts, None) or (self._last.popleft() if self._last else None)

    def put_back(self, part: LinePart, n_deaths: int) -> None:
        """Add a part that so many workers did not survive."""
        (self._next if n_deaths == 1 else self._last).append(part)


def translate_parts(
    pool: WorkerPool, parts: Iterator[LinePart], progress: Callable[[int], None] = lambda n_done: None
) -> Iterator[tuple[LinePart, PartResult]]:
    """Yield parts with their translations as they are completed, in any order, each once.

    A part whose worker dies is given to another one. If a part makes every worker die, all others are completed first.
    `progress` is called with the number of lines that are translated in parts that are not complete.
    """
    queue, busy, idle = _PartQueue(parts), dict[int, LinePart](), set[int]()
    n_done, n_deaths = dict[int, int](), Counter[Path | int]()  # deaths at a part, or before a worker had one
    result: tuple[LinePart, PartResult] | None = None
    while True:
        while idle and (part := queue.get()):
            busy[worker := idle.pop()] = part
            pool.send(worker, part)
        if result:
            yield result  # the workers go on while it is written
            result = None
        if idle and not busy:
            return
        reply = pool.wait()
        worker, content = reply.worker, reply.content or {}
        if "error" in content:
            raise UserError(content["error"])
        if "done" in content:
            n_done[worker] = content["done"]
            progress(sum(n_done.values()))
            continue
        n_done.pop(worker, None)
        part = busy.pop(worker, None)
        if reply.content is None:
            idle.discard(worker)
            n_deaths[cause := part.out if part else worker] += 1
            if n_deaths[cause] >= _DEATHS:
                raise UserError(_gave_up(part))
            if part:
                queue.put_back(part, n_deaths[cause])
            continue
        idle.add(worker)
        if part:
            del n_deaths[worker]
            result = part, PartResult.from_json(content)


def _gave_up(part: LinePart | None) -> str:
    where = f" at the lines from {part.first:,} on ({part.out})" if part else " before they were ready"
    return (
        f"{_DEATHS} workers were killed{where}; perhaps memory is short: use fewer --workers, then give the "
        "same command again to continue"
    )
