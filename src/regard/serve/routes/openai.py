"""The API of OpenAI: /v1/completions and /v1/chat/completions, whole or streamed."""

import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from regard.pipelines.base import Pipeline
from regard.pipelines.generator import Generator
from regard.pipelines.translation import Translation
from regard.pipelines.translator import Translator
from regard.serve.batch_queue import Job
from regard.serve.dispatch import Dispatcher, JobDone, JobFailed, JobUpdate
from regard.serve.errors import ApiError, as_api_error
from regard.serve.jobs import Continuation, GenerationJob, Report, TranslationJob
from regard.serve.openapi_document import ERRORS, event_stream
from regard.serve.registry import ServedModel
from regard.serve.schemas import openai as schemas
from regard.serve.schemas.base import ResponseBody, limited_route

_DEFAULT_MAX_TOKENS = 200
_MIN_TEMPERATURE = 1e-3  # instead of 0, by which scores cannot be divided


def router(dispatcher: Dispatcher) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["OpenAI"], route_class=limited_route(dispatcher.limits), responses=ERRORS)

    @routes.post(
        "/completions",
        response_model=schemas.CompletionResponse,
        responses=event_stream("a chunk or an error", schemas.CompletionChunk, schemas.StreamError),
    )
    async def completions(body: schemas.CompletionRequest, request: Request) -> ResponseBody | StreamingResponse:
        """Continue a prompt with a language model; a translator translates it."""
        served = dispatcher.find(body.model)
        return await CompletionAnswer(dispatcher, served, body, body.prompt).respond(request)

    @routes.post(
        "/chat/completions",
        response_model=schemas.ChatResponse,
        responses=event_stream("a chunk or an error", schemas.ChatChunk, schemas.StreamError),
    )
    async def chat(body: schemas.ChatRequest, request: Request) -> ResponseBody | StreamingResponse:
        """Continue all messages with a language model; a translator translates the last one."""
        served = dispatcher.find(body.model)
        texts = [message.content for message in body.messages if message.role in ("user", "assistant")]
        if not texts:
            raise ApiError(422, "Invalid request", "there is no message of a user")
        text = texts[-1] if served.pipeline.noun == "translator" else "\n".join(texts)
        body.max_tokens = body.max_tokens or body.max_completion_tokens
        return await ChatAnswer(dispatcher, served, body, text).respond(request)

    return routes


@dataclass(frozen=True)
class Answer(ABC):
    """The answer to one request, whole or as a stream of chunks."""

    dispatcher: Dispatcher
    served: ServedModel[Pipeline]
    body: schemas.OpenAIRequest
    text: str
    id: str = field(default_factory=lambda: f"cmpl-{secrets.token_hex(12)}")
    created: int = field(default_factory=lambda: int(time.time()))

    @abstractmethod
    def response(self, text: str, reason: schemas.FinishReason) -> ResponseBody: ...

    @abstractmethod
    def chunk(self, text: str, reason: schemas.FinishReason | None = None) -> ResponseBody:
        """A part of the text or, with a reason, the end of the stream"""

    async def respond(self, request: Request) -> ResponseBody | StreamingResponse:
        if (translator := self.served.narrow(Translator)) is not None:
            self.dispatcher.check_translation(translator, self.text)
        else:
            self.dispatcher.check_text(self.served, self.text)
        make_job = self._job_maker()
        if self.body.stream:
            return StreamingResponse(self._events(make_job), media_type="text/event-stream")
        [result] = await self.dispatcher.run(request, [make_job(None)])
        return self.response(*_as_continuation(result))

    def usage(self, text: str) -> schemas.TokenUsage:
        pipeline = self.served.pipeline
        n_prompt = len(pipeline.src_tokenizer.encode([self.text])[0])
        n_output = len(pipeline.tgt_tokenizer.encode([text])[0])
        return schemas.TokenUsage(prompt_tokens=n_prompt, completion_tokens=n_output, total_tokens=n_prompt + n_output)

    def _job_maker(self) -> Callable[[Report | None], Job[Translation | Continuation]]:
        """Return a function that makes the job, given where to report new text. Only a language model reports.

        A beam search may still change the start of its best hypothesis, so a translation is sent when it is complete.
        """
        body = self.body
        if (translator := self.served.narrow(Translator)) is not None:
            config = translator.pipeline.decode_config
            config = config if body.max_tokens is None else config.model_copy(update={"max_len": body.max_tokens})
            return lambda report: TranslationJob(translator, self.text, config)
        if (generator := self.served.narrow(Generator)) is not None:
            temperature = max(body.temperature, _MIN_TEMPERATURE)
            seed = secrets.randbelow(2**31) if body.seed is None else body.seed
            n, stop = body.max_tokens or _DEFAULT_MAX_TOKENS, body.stop_sequences
            return lambda report: GenerationJob(generator, self.text, n, temperature, body.top_p, seed, stop, report)
        raise ApiError(422, "Invalid request", f"a {self.served.pipeline.noun} does not continue texts")

    async def _events(self, make_job: Callable[[Report], Job[Translation | Continuation]]) -> AsyncIterator[str]:
        n_sent = 0
        async for event in self.dispatcher.stream(make_job):
            match event:
                case JobUpdate(piece):
                    n_sent += len(piece)
                    yield self.chunk(piece).as_event()
                case JobDone(result):
                    text, reason = _as_continuation(result)
                    yield self.chunk(text[n_sent:]).as_event()
                    yield self.chunk("", reason).as_event()
                case JobFailed(error):
                    problem = as_api_error(error)
                    detail = schemas.StreamErrorDetail(message=problem.detail or problem.title, code=problem.status)
                    yield schemas.StreamError(error=detail).as_event()
        yield "data: [DONE]\n\n"


class CompletionAnswer(Answer):
    def response(self, text: str, reason: schemas.FinishReason) -> schemas.CompletionResponse:
        choice = schemas.CompletionChoice(text=text, finish_reason=reason)
        return schemas.CompletionResponse(
            id=self.id, created=self.created, model=self.served.name, choices=[choice], usage=self.usage(text)
        )

    def chunk(self, text: str, reason: schemas.FinishReason | None = None) -> schemas.CompletionChunk:
        choice = schemas.CompletionChoice(text=text, finish_reason=reason)
        return schemas.CompletionChunk(id=self.id, created=self.created, model=self.served.name, choices=[choice])


class ChatAnswer(Answer):
    def response(self, text: str, reason: schemas.FinishReason) -> schemas.ChatResponse:
        choice = schemas.ChatChoice(message=schemas.AssistantMessage(content=text), finish_reason=reason)
        return schemas.ChatResponse(
            id=self.id, created=self.created, model=self.served.name, choices=[choice], usage=self.usage(text)
        )

    def chunk(self, text: str, reason: schemas.FinishReason | None = None) -> schemas.ChatChunk:
        delta = schemas.AssistantMessage(content=text) if reason is None else schemas.EmptyDelta()
        choice = schemas.ChatChunkChoice(delta=delta, finish_reason=reason)
        return schemas.ChatChunk(id=self.id, created=self.created, model=self.served.name, choices=[choice])


def _as_continuation(result: Translation | Continuation) -> Continuation:
    return Continuation(result.text, "stop") if isinstance(result, Translation) else result
