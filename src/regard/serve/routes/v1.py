"""The page's own API: the list of models, tokens, translations."""

import time
from collections.abc import AsyncIterator, Callable

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from regard.pipelines.translation import Translation
from regard.pipelines.translator import Translator
from regard.search.decode import DecodeConfig
from regard.serve.dispatch import Dispatcher, JobDone, JobFailed, JobUpdate
from regard.serve.errors import as_api_error
from regard.serve.jobs import Report, TranslationJob
from regard.serve.openapi_document import ERRORS, event_stream
from regard.serve.schemas.base import limited_route
from regard.serve.schemas.models import ModelList
from regard.serve.schemas.v1_requests import SEARCH_SETTINGS, TokenizeRequest, TranslateRequest
from regard.serve.schemas.v1_responses import FailedEvent, ProgressEvent, TokenizeResponse, TranslateResponse


def router(dispatcher: Dispatcher) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["v1"], route_class=limited_route(dispatcher.limits), responses=ERRORS)
    started = int(time.time())

    @routes.get("/models")
    async def models() -> ModelList:
        """List the models, for the page and for OpenAI's clients."""
        return ModelList.of(list(dispatcher.registry), started)

    @routes.post("/tokenize")
    async def tokenize(body: TokenizeRequest) -> TokenizeResponse:
        """Split a text into the source tokens of a model, and show the BPE merges of each word."""
        served = dispatcher.find(body.model)
        dispatcher.check_text(served, body.text)
        return TokenizeResponse.of(served.pipeline.src_tokenizer, served.pipeline.clean(body.text))

    @routes.post(
        "/translate",
        response_model=TranslateResponse,
        responses=event_stream("said, done or failed", ProgressEvent, TranslateResponse, FailedEvent),
    )
    async def translate(body: TranslateRequest, request: Request) -> TranslateResponse | StreamingResponse:
        """Translate a text. With `stream`, events `said` follow the search; `done` has the response."""
        served = dispatcher.find_kind(body.model, Translator)
        config = _decode_config(body, served.pipeline.decode_config)
        dispatcher.check_translation(served, body.text, whole=bool(body.prefix) or config.n_best > 1)
        dispatcher.check_prefix(served, body.prefix)
        begin = time.perf_counter()

        def make_job(report: Report | None = None) -> TranslationJob:
            return TranslationJob(served, body.text, config, body.prefix, report is None, body.as_written, report)

        def respond(translation: Translation) -> TranslateResponse:
            return TranslateResponse.of(served, translation, time.perf_counter() - begin)

        if body.stream:
            return StreamingResponse(_events(dispatcher, make_job, respond), media_type="text/event-stream")
        [translation] = await dispatcher.run(request, [make_job()])
        return respond(translation)

    return routes


def _decode_config(body: TranslateRequest, default: DecodeConfig) -> DecodeConfig:
    """Return the model's settings with those of the request; the beam is wide enough for n_best hypotheses."""
    options = body.model_dump(include=SEARCH_SETTINGS, exclude_none=True)
    options["beam"] = max(body.beam or default.beam, body.n_best or 1)
    return DecodeConfig.parse({**default.model_dump(), **options}, where="translate")


async def _events(
    dispatcher: Dispatcher,
    make_job: Callable[[Report], TranslationJob],
    respond: Callable[[Translation], TranslateResponse],
) -> AsyncIterator[str]:
    async for event in dispatcher.stream(make_job):
        match event:
            case JobUpdate(text):
                yield ProgressEvent(text=text).as_event("said")
            case JobDone(translation):
                yield respond(translation).as_event("done")
            case JobFailed(error):
                problem = as_api_error(error)
                failed = FailedEvent(title=problem.title, status=problem.status, detail=problem.detail)
                yield failed.as_event("failed")
