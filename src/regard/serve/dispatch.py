"""Between routes and queue: find the model, check the text, run jobs while the client is connected."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic

from fastapi import Request

from regard.pipelines.base import Pipeline
from regard.pipelines.translator import Translator
from regard.serve.batch_queue import Job, JobQueue, R
from regard.serve.errors import ApiError
from regard.serve.limits import Limits
from regard.serve.registry import OtherT, Registry, ServedModel
from regard.text.tokenizer import Tokenizer
from regard.threads import own_threads

_POLL_SECONDS = 0.05  # between two checks whether the client is still connected


@dataclass(frozen=True)
class JobUpdate:
    """New text of a running job"""

    text: str


@dataclass(frozen=True)
class JobDone(Generic[R]):
    result: R


@dataclass(frozen=True)
class JobFailed:
    error: BaseException


class Dispatcher:
    def __init__(self, registry: Registry, limits: Limits) -> None:
        self.registry = registry
        self.limits = limits
        self.queue = JobQueue(limits, "decode", own_threads)
        """Everything that runs a model"""
        self.export_queue = JobQueue(limits, "export")
        """Serialising tensors, which need not wait for the models"""

    def find(self, name: str | None) -> ServedModel[Pipeline]:
        """Return the model of that name; without a name, the only model."""
        if name is None:
            return _only(list(self.registry.models.values()), "model")
        if name not in self.registry.models:
            raise ApiError(404, "Not found", "there is no model of that name, see /v1/models")
        return self.registry.models[name]

    def find_kind(self, name: str | None, kind: type[OtherT]) -> ServedModel[OtherT]:
        """Like `find`, among the models whose pipelines are of that class."""
        if name is None:
            return _only(self.registry.of_kind(kind), kind.noun)
        served = self.find(name)
        if (narrowed := served.narrow(kind)) is None:
            raise ApiError(422, "Invalid request", f"that model is not a {kind.noun} but a {served.pipeline.noun}")
        return narrowed

    def check_text(self, served: ServedModel[Pipeline], text: str) -> None:
        """Refuse a text that is too long for the server or for the model."""
        self._check_length(served, text, served.pipeline.src_tokenizer)

    def check_translation(self, served: ServedModel[Translator], text: str, whole: bool = False) -> None:
        """Refuse a text to translate that is too long for the server, or has a sentence too long for the model."""
        if whole:
            self.check_text(served, text)
            return
        translator, most = served.pipeline, self.limits.tokens
        self._check_chars(text)
        lengths = [len(ids) for ids in translator.src_tokenizer.encode(translator.split(text).sentences)]
        if sum(lengths) > most:
            raise ApiError(413, "Content too large", f"a text may have {most:,} tokens")
        if max(lengths, default=0) > (most := translator.length_limit().tokens):
            raise ApiError(413, "Content too large", f"a sentence may have {most:,} tokens")

    def check_prefix(self, served: ServedModel[Pipeline], prefix: str) -> None:
        """Refuse a start of the output that is too long."""
        self._check_length(served, prefix, served.pipeline.tgt_tokenizer)

    def _check_length(self, served: ServedModel[Pipeline], text: str, tokenizer: Tokenizer) -> None:
        self._check_chars(text)
        most = self.limits.tokens
        # Of a text that is too long for the model, a language model reads the end and a classifier the beginning.
        if served.pipeline.noun == "translator":
            most = min(most, served.pipeline.length_limit().tokens)
        if text and len(tokenizer.encode([text])[0]) > most:
            raise ApiError(413, "Content too large", f"a text may have {most:,} tokens")

    def _check_chars(self, text: str) -> None:
        if len(text) > self.limits.chars:
            raise ApiError(413, "Content too large", f"a text may have {self.limits.chars:,} characters")

    async def run(self, request: Request, jobs: Sequence[Job[R]]) -> list[R]:
        """Return the results of jobs that run a model."""
        return await while_connected(request, self.queue.put(jobs))

    async def export(self, request: Request, job: Job[R]) -> R:
        """Return the result of a job that serialises tensors."""
        [result] = await while_connected(request, self.export_queue.put([job]))
        return result

    async def stream(
        self, make_job: Callable[[Callable[[str], None]], Job[R]]
    ) -> AsyncIterator[JobUpdate | JobDone[R] | JobFailed]:
        """Yield what a job reports, and at last its result or its error.

        `make_job` gets the function that the job must call to report. A caller that stops reading cancels the job.
        """
        loop = asyncio.get_running_loop()
        events = asyncio.Queue[JobUpdate | JobDone[R] | JobFailed]()

        def report(text: str) -> None:
            loop.call_soon_threadsafe(events.put_nowait, JobUpdate(text))

        task = asyncio.ensure_future(self.queue.put([make_job(report)]))
        task.add_done_callback(lambda done: events.put_nowait(_outcome(done)))
        try:
            while True:
                event = await events.get()
                yield event
                if not isinstance(event, JobUpdate):
                    return
        finally:
            task.cancel()

    def close(self) -> None:
        self.queue.close()
        self.export_queue.close()


def _only(models: Sequence[ServedModel[OtherT]], noun: str) -> ServedModel[OtherT]:
    if not models:
        raise ApiError(422, "Invalid request", f"this server has no {noun}, see /v1/models")
    if len(models) > 1:
        raise ApiError(422, "Invalid request", f"model is missing: there is more than one {noun}, see /v1/models")
    return models[0]


def _outcome(done: "asyncio.Future[list[R]]") -> JobDone[R] | JobFailed:
    if done.cancelled():
        return JobFailed(asyncio.CancelledError())
    error = done.exception()
    return JobFailed(error) if error else JobDone(done.result()[0])


async def while_connected(request: Request, result: Awaitable[R]) -> R:
    """Wait for a result. If the client disconnects first, cancel the waiting and with it the job."""
    task = asyncio.ensure_future(result)
    try:
        while True:
            done, _ = await asyncio.wait([task], timeout=_POLL_SECONDS)
            if done:
                return task.result()
            if await request.is_disconnected():
                raise ApiError(499, "Client closed request")
    finally:
        task.cancel()
