"""Parts of a job and the workers that translate them: who gets which part, and what happens when a worker dies."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

from regard.bulk.line_translator import PartResult
from regard.bulk.part import LinePart
from regard.errors import UserError

_DEATHS = 10  # of workers, without a part that was completed, after which a job gives up


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


def translate_parts(
    pool: WorkerPool, parts: Iterator[LinePart], progress: Callable[[int], None] = lambda n_done: None
) -> Iterator[tuple[LinePart, PartResult]]:
    """Yield parts with their translations as they are completed, in any order, each once.

    A part whose worker dies is given to another one. If a part makes every worker die, all others are completed first.
    `progress` is called with the number of lines that are translated in parts that are not complete.
    """
    idle, busy, n_done = set[int](), dict[int, LinePart](), dict[int, int]()
    again, n_deaths = deque[LinePart](), 0
    while True:
        while idle and (part := next(parts, None) or (again.popleft() if again else None)):
            worker = idle.pop()
            busy[worker] = part
            pool.send(worker, part)
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
        if reply.content is None:
            idle.discard(worker)
            again.extend([busy.pop(worker)] if worker in busy else [])
            n_deaths += 1
            if n_deaths >= _DEATHS:
                raise UserError(_gave_up(again))
            continue
        idle.add(worker)
        if "rows" in content:
            n_deaths = 0
            yield busy.pop(worker), PartResult.from_json(content)


def _gave_up(parts: Iterable[LinePart]) -> str:
    where = next((f" at the lines from {part.first:,} on ({part.out})" for part in parts), " before they were ready")
    return (
        f"{_DEATHS} workers in a row were killed{where}; perhaps memory is short: use fewer --workers, then give the "
        "same command again to continue"
    )
