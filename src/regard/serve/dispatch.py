"""Between routes and queue: find the model, check the text, run jobs while the client is connected."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar, get_args

import torch
from fastapi import Request

from regard.errors import UserError
from regard.pipelines.base import Pipeline
from regard.pipelines.translator import Translator
from regard.serve.batch_queue import Job, JobQueue, QueueFull, QueueName, R
from regard.serve.errors import ApiError, text_too_long, unknown_model
from regard.serve.limits import Limits
from regard.serve.registry import OtherT, Registry, ServedModel
from regard.text.tokenizer import Tokenizer
from regard.threads import own_threads

U = TypeVar("U")
_WATCH_SECONDS = 0.05  # after which a request is worth watching for its client to leave
_LONG_TEXT = 1_000  # characters that are split into sentences within a millisecond or two


@dataclass(frozen=True)
class JobUpdate(Generic[U]):
    """What a running job reports, such as new text"""

    update: U


@dataclass(frozen=True)
class JobDone(Generic[R]):
    result: R


@dataclass(frozen=True)
class JobFailed:
    error: BaseException


JobEvent = JobUpdate[U] | JobDone[R] | JobFailed


class Dispatcher:
    def __init__(self, registry: Registry, limits: Limits) -> None:
        self.registry = registry
        self.limits = limits
        self.queues = _start_queues(limits, "translate" if registry.of_kind(Translator) else "generate")

    def find(self, name: str | None) -> ServedModel[Pipeline]:
        """Return the model of that name; without a name, the only model."""
        if name is None:
            return _only(list(self.registry.models.values()), "model")
        if name not in self.registry.models:
            raise unknown_model()
        return self.registry.models[name]

    def find_target(self, name: str) -> tuple[ServedModel[Pipeline], str | None]:
        """Return the model and the target language that a name such as NAME or NAME:fr means."""
        model, separator, to = name.partition(":")
        served = self.find(model)
        if separator and to not in served.targets:
            raise unknown_model()
        return served, to or None

    def find_kind(self, name: str | None, kind: type[OtherT]) -> ServedModel[OtherT]:
        """Like `find`, among the models whose pipelines are of that class."""
        if name is None:
            return _only(self.registry.of_kind(kind), kind.noun)
        served = self.find(name)
        if (narrowed := served.narrow(kind)) is None:
            raise ApiError(422, "Invalid request", f"that model is not a {kind.noun} but a {served.pipeline.noun}")
        return narrowed

    def check_room(self) -> None:
        """Refuse a request to translate that there is no room for, before work is done for it."""
        if self.queues["translate"].depth >= self.limits.queue:
            raise QueueFull

    def check_chars(self, texts: Iterable[str | Sequence[int]]) -> None:
        """Refuse texts that have too many characters together; token ids are no characters."""
        self._check_chars(sum(len(text) for text in texts if isinstance(text, str)))

    def check_text(self, served: ServedModel[Pipeline], text: str) -> None:
        """Refuse a text that is too long for the server or for the model."""
        self._check_length(served, text, served.pipeline.src_tokenizer)

    def tagged(self, served: ServedModel[Pipeline], text: str, to: str | None) -> str:
        """Return a text with the tag of its target language; refuse a language that the model does not have."""
        try:
            return served.pipeline.with_tag(text, to)
        except UserError:  # its message repeats the language
            raise _wrong_target(served) from None

    async def check_translations(
        self, served: ServedModel[Translator], texts: Sequence[str], to: str | None = None
    ) -> None:
        """Refuse texts to translate that are too long for the server, or have a sentence too long for the model."""
        self.check_chars(texts)
        await self.check_sentences(served, texts, self.limits.sentences, to)

    async def check_sentences(
        self,
        served: ServedModel[Translator],
        texts: Sequence[str],
        max_sentences: int | None = None,
        to: str | None = None,
    ) -> None:
        """Refuse texts with too many sentences, or with one that is too long for the server or for the model.

        With long texts this takes a while, so the event loop is not kept waiting.
        """
        check = partial(self._check_sentences, served, texts, max_sentences, to)
        if sum(map(len, texts)) > _LONG_TEXT:
            await asyncio.to_thread(check)
        else:
            check()

    def _check_sentences(
        self, served: ServedModel[Translator], texts: Sequence[str], max_sentences: int | None, to: str | None
    ) -> None:
        translator = served.pipeline
        splits = [translator.split(self.tagged(served, text, to)) for text in texts]
        sentences = [translator.with_tag(sentence, split.tag) for split in splits for sentence in split.sentences]
        if max_sentences is not None and len(sentences) > max_sentences:
            raise text_too_long(f"the text has {len(sentences):,} sentences, more than the limit of {max_sentences:,}")
        n_tokens = max(map(len, translator.src_tokenizer.encode(sentences)), default=0)
        if n_tokens > (most := min(self.limits.tokens, translator.length_limit().tokens)):
            raise text_too_long(f"a sentence has {n_tokens:,} tokens, more than the limit of {most:,}")

    def check_prefix(self, served: ServedModel[Pipeline], prefix: str) -> None:
        """Refuse a start of the output that is too long."""
        self._check_length(served, prefix, served.pipeline.tgt_tokenizer)

    def _check_length(self, served: ServedModel[Pipeline], text: str, tokenizer: Tokenizer) -> None:
        self._check_chars(len(text))
        most = self.limits.tokens
        # Of a text that is too long for the model, a language model reads the end and a classifier the beginning.
        if served.pipeline.noun == "translator":
            most = min(most, served.pipeline.length_limit().tokens)
        if text and (n_tokens := len(tokenizer.encode([text])[0])) > most:
            raise text_too_long(f"the text has {n_tokens:,} tokens, more than the limit of {most:,}")

    def _check_chars(self, n_chars: int) -> None:
        if n_chars > (most := self.limits.chars):
            raise text_too_long(f"the text has {n_chars:,} characters, more than the limit of {most:,}")

    async def run(self, request: Request, jobs: Sequence[Job[R]]) -> list[R]:
        """Return the results of jobs of one kind."""
        return await while_connected(request, self._queue_of(jobs[0]).put(jobs)) if jobs else []

    def _queue_of(self, job: Job[R]) -> JobQueue:
        return self.queues[job.queue]

    async def stream(
        self, make_job: Callable[[Callable[[U], None]], Job[R]], only_latest: bool = False
    ) -> AsyncIterator[JobEvent[U, R]]:
        """Yield what a job reports, and at last its result or its error.

        `make_job` gets the function that the job must call to report. A caller that stops reading cancels the job. With
        `only_latest`, a caller that reads slowly gets only the latest report instead of all that it has missed.
        """
        loop = asyncio.get_running_loop()
        events = asyncio.Queue[JobEvent[U, R]]()

        def put(update: U) -> None:
            while only_latest and not events.empty():
                events.get_nowait()
            events.put_nowait(JobUpdate(update))

        def report(update: U) -> None:
            loop.call_soon_threadsafe(put, update)

        job = make_job(report)
        try:
            results = self._queue_of(job).put([job])
        except QueueFull as error:
            yield JobFailed(error)
            return
        results.add_done_callback(lambda done: events.put_nowait(_outcome(done)))
        try:
            while True:
                event = await events.get()
                yield event
                if not isinstance(event, JobUpdate):
                    return
        finally:
            results.cancel()

    def close(self) -> None:
        for queue in self.queues.values():
            queue.close()


def _start_queues(limits: Limits, main: QueueName) -> dict[QueueName, JobQueue]:
    """Return a queue of each kind. The main one decodes with all of torch's threads, the others with one each.

    With several threads each, there would be more than cores, and OpenMP would let none of them spin.
    """
    n_threads = torch.get_num_threads()

    def at_start(name: QueueName) -> Callable[[], None]:
        return partial(own_threads, n_threads) if name == main else partial(torch.set_num_threads, 1)

    inspect = {"queue": limits.inspect_queue, "queue_seconds": limits.inspect_queue_seconds}
    of_queue = {"trace": limits.model_copy(update=inspect), "export": limits.model_copy(update=inspect)}
    return {name: JobQueue(of_queue.get(name, limits), name, at_start(name)) for name in get_args(QueueName)}


def _wrong_target(served: ServedModel[Pipeline]) -> ApiError:
    targets = ", ".join(served.targets)
    detail = f"to must be one of {targets}" if targets else "to is not a target language of this model; leave it out"
    return ApiError(422, "Invalid request", detail, param="to")


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


async def while_connected(request: Request, result: "asyncio.Future[R]") -> R:
    """Wait for a result. If the client disconnects first, the request fails and the jobs are given up."""
    loop = asyncio.get_running_loop()
    watching: list[asyncio.Task[None]] = []
    timer = loop.call_later(_WATCH_SECONDS, lambda: watching.append(loop.create_task(_watch(request, result))))
    try:
        return await result
    finally:
        timer.cancel()
        for task in watching:
            task.cancel()


async def _watch(request: Request, result: "asyncio.Future[R]") -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass  # what is left of the body
    if not result.done():
        result.set_exception(ApiError(499, "Client closed request"))
