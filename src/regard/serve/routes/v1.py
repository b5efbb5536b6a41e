"""The page's own API: the list of models, tokens, translations."""

import asyncio
import time
from collections.abc import Sequence

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse

from regard.data.glossary import Glossary, GlossaryTerm
from regard.errors import UserError
from regard.pipelines.translation import Translation
from regard.pipelines.translator import Translator
from regard.search.decode import DecodeConfig
from regard.serve.batch_queue import FunctionJob, QueuedJob
from regard.serve.dispatch import Dispatcher
from regard.serve.errors import ApiError
from regard.serve.event_stream import stream_events
from regard.serve.jobs import Report, TranslationJob
from regard.serve.openapi_document import ERRORS, MODEL_LIST_ERRORS, event_stream
from regard.serve.schemas.base import limited_route
from regard.serve.schemas.models import ModelList
from regard.serve.schemas.v1_requests import (
    SEARCH_SETTINGS,
    SentencesRequest,
    TermRequest,
    TokenizeRequest,
    TranslateRequest,
)
from regard.serve.schemas.v1_responses import (
    FailedEvent,
    ProgressEvent,
    SentencesResponse,
    TokenizeResponse,
    TranslateResponse,
)

_LONG_TEXT = 2_000  # characters


def router(dispatcher: Dispatcher) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["v1"], route_class=limited_route(dispatcher.limits), responses=ERRORS)

    @routes.get("/models", responses=MODEL_LIST_ERRORS)
    async def models() -> ModelList:
        """List the models, for the page and for OpenAI's clients."""
        return ModelList.of(list(dispatcher.registry), dispatcher.registry.opened)

    @routes.post("/tokenize")
    async def tokenize(body: TokenizeRequest) -> TokenizeResponse:
        """Split a text into the source tokens of a model, and show the BPE merges of each word."""
        served = dispatcher.find(body.model)
        dispatcher.check_text(served, body.text)
        return TokenizeResponse.of(served.pipeline.src_tokenizer, served.pipeline.clean(body.text))

    @routes.post("/sentences")
    async def sentences(body: SentencesRequest) -> SentencesResponse:
        """Split a text into sentences, as a translator reads them."""
        served = dispatcher.find_kind(body.model, Translator)
        await dispatcher.check_translations(served, [body.text], body.to)
        return SentencesResponse.of(*await asyncio.to_thread(served.pipeline.fit_sentences, body.text, body.to))

    @routes.post(
        "/translate",
        response_model=TranslateResponse,
        responses=event_stream("said, done or failed", ProgressEvent, TranslateResponse, FailedEvent),
    )
    async def translate(body: TranslateRequest, request: Request) -> Response:
        """Translate a text. With `stream`, events `said` follow the search; `done` has the response."""
        served = dispatcher.find_kind(body.model, Translator)
        config = _decode_config(body, served.pipeline.decode_config)
        if body.prefix:
            dispatcher.check_text(served, dispatcher.tagged(served, body.text, body.to))
            dispatcher.check_prefix(served, body.prefix)
        else:
            await dispatcher.check_translations(served, [body.text], body.to)
        begin, glossary = time.perf_counter(), _glossary(body.glossary)

        def make_job(report: Report | None = None) -> TranslationJob:
            return TranslationJob(
                served, body.text, config, body.prefix, report is None, body.as_written, report, body.to, glossary
            )

        async def respond(translation: Translation) -> str:
            """Return the response as JSON. That of a long text takes a while, so a worker makes it."""

            def dump(queued: QueuedJob | None = None) -> str:
                return TranslateResponse.of(served, translation, time.perf_counter() - begin).model_dump_json()

            if len(body.text) <= _LONG_TEXT:
                return dump()
            [content] = await dispatcher.run(request, [FunctionJob(dump, "export")])
            return content

        if body.stream:
            return StreamingResponse(stream_events(dispatcher, make_job, respond), media_type="text/event-stream")
        [translation] = await dispatcher.run(request, [make_job()])
        return Response(await respond(translation), media_type="application/json")

    return routes


def _decode_config(body: TranslateRequest, default: DecodeConfig) -> DecodeConfig:
    """Return the model's settings with those of the request; the beam is wide enough for n_best hypotheses."""
    options = body.model_dump(include=SEARCH_SETTINGS, exclude_none=True)
    options["beam"] = max(body.beam or default.beam, body.n_best or 1)
    return DecodeConfig.parse({**default.model_dump(), **options}, where="translate")


def _glossary(terms: Sequence[TermRequest]) -> Glossary | None:
    """Return the glossary of a request; refuse a term that cannot be one."""
    try:
        return Glossary(tuple(GlossaryTerm.parse(term.source, term.target) for term in terms)) if terms else None
    except UserError:  # its message repeats the term
        raise ApiError(
            422,
            "Invalid request",
            "a term of the glossary is not valid: both sides need letters or digits, and no control characters",
        ) from None
