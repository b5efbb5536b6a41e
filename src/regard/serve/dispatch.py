"""Where routes and queue meet: a request waits for its work and stops waiting when the client leaves."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Request

from regard.pipelines.translator import Translator
from regard.serve.errors import ApiError
from regard.serve.limits import Limits
from regard.serve.queue import Queue, Work
from regard.serve.registry import Registry, Served

T = TypeVar("T")
_LOOK = 0.05  # seconds between two looks at whether the client is still there


@dataclass(frozen=True)
class Desk:
    registry: Registry
    queue: Queue
    limits: Limits

    def served(self, name: str | None, kind: type[Any] = object) -> Served:
        """The model of that name, or the only one of its kind where none is named"""
        fitting = self.registry.of_kind(kind)
        if name is None and len(fitting) == 1:
            return fitting[0]
        if name is None:
            raise ApiError(422, "Invalid request", "model is missing: there are several, see /v1/models")
        if name not in self.registry:
            raise ApiError(404, "Not found", "there is no model of that name, see /v1/models")
        if not isinstance(self.registry[name].pipeline, kind):
            raise ApiError(422, "Invalid request", f"that model is no {kind.__name__.lower()}")
        return self.registry[name]

    def check_text(self, served: Served, text: str) -> None:
        """Bounds of a text, before anything is done with it"""
        if len(text) > self.limits.chars:
            raise ApiError(413, "Content too large", f"a text may have {self.limits.chars:,} characters")
        pipeline = served.pipeline
        if not text:
            return
        tokenizer = pipeline.src_tokenizer
        n = len(tokenizer.encode([text])[0])
        room = self.limits.tokens if not isinstance(pipeline, Translator) else min(self.limits.tokens, _room(served))
        if n > room:
            raise ApiError(413, "Content too large", f"a text may have {room:,} tokens")

    async def do(self, request: Request, works: Sequence[Work]) -> list[Any]:
        return await while_connected(request, self.queue.put(works))

    async def stream(self, work: Callable[[Callable[[Any], None]], Work]) -> AsyncIterator[tuple[str, Any]]:
        """("said", what) as the work says it, and at the end ("done", result) or ("failed", error)"""
        loop, said = asyncio.get_running_loop(), asyncio.Queue[tuple[str, Any]]()

        def say(what: Any) -> None:
            loop.call_soon_threadsafe(said.put_nowait, ("said", what))

        task = asyncio.ensure_future(self.queue.put([work(say)]))
        task.add_done_callback(lambda done: said.put_nowait(_ending(done)))
        try:
            while True:
                kind, what = await said.get()
                yield kind, what
                if kind != "said":
                    return
        finally:
            task.cancel()


def _ending(done: "asyncio.Future[list[Any]]") -> tuple[str, Any]:
    if done.cancelled():
        return "failed", asyncio.CancelledError()
    error = done.exception()
    return ("failed", error) if error else ("done", done.result()[0])


def _room(served: Served) -> int:
    """Tokens of a source that the model has positions for"""
    longest = served.model.max_len
    return 1 << 30 if longest is None else longest - 2


async def while_connected(request: Request, waiting: Awaitable[T]) -> T:
    """The result, unless the client leaves first: then the waiting is cancelled, and with it the work."""
    task = asyncio.ensure_future(waiting)
    try:
        while True:
            done, _ = await asyncio.wait([task], timeout=_LOOK)
            if done:
                return task.result()
            if await request.is_disconnected():
                raise ApiError(499, "Client closed request")
    finally:
        task.cancel()
