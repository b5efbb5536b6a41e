"""The application: routes behind a guard, and queues whose workers run the models."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Response
from fastapi.responses import PlainTextResponse

from regard import __version__
from regard.pipelines.translator import Translator
from regard.serve.dispatch import Dispatcher
from regard.serve.errors import add_error_handlers
from regard.serve.file_store import FileStore
from regard.serve.guard import Access, Guard
from regard.serve.language_pairs import LanguagePairs
from regard.serve.limits import Limits
from regard.serve.openapi_document import add_document
from regard.serve.page import read_page
from regard.serve.registry import Registry
from regard.serve.routes import libretranslate, openai, stages, trace, translate_file, v1
from regard.serve.schemas.health import HealthResponse, ReadyResponse
from regard.serve.suggestion_file import SuggestionFile
from regard.serve.trace_store import TraceStore

STATIC = Path(__file__).parent / "static"


def make_app(
    registry: Registry, access: Access, limits: Limits | None = None, suggestions: SuggestionFile | None = None
) -> FastAPI:
    limits = limits or Limits()
    dispatcher, store, files = Dispatcher(registry, limits), TraceStore(limits), FileStore(limits)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        dispatcher.close()
        files.clear()

    app = FastAPI(title="regard", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.dispatcher, app.state.traces = dispatcher, store
    add_error_handlers(app)
    add_document(app)
    _add_health(app, dispatcher, store)
    app.include_router(v1.router(dispatcher))
    app.include_router(trace.router(dispatcher, store))
    app.include_router(stages.router(dispatcher, store))
    app.include_router(openai.router(dispatcher))
    pairs = LanguagePairs(registry.of_kind(Translator))
    app.include_router(libretranslate.router(dispatcher, pairs, suggestions, access.token is not None))
    app.include_router(translate_file.router(dispatcher, pairs, files))
    for path, file in read_page(STATIC).items():
        app.add_route(path, file.respond)
    app.add_middleware(Guard, access=access, limits=limits)
    return app


def _add_health(app: FastAPI, dispatcher: Dispatcher, store: TraceStore) -> None:
    queues = dispatcher.queues.values()

    @app.get("/healthz", tags=["health"])
    async def healthz() -> HealthResponse:
        """Whether the server runs"""
        return HealthResponse()

    @app.get("/readyz", tags=["health"], responses={503: {"model": ReadyResponse}})
    async def readyz(response: Response) -> ReadyResponse:
        """Whether the queues have room"""
        if all(queue.depth < queue.limits.queue for queue in queues):
            return ReadyResponse(status="ready")
        response.status_code = 503
        return ReadyResponse(status="busy")

    @app.get("/metrics", tags=["health"], response_class=PlainTextResponse)
    async def metrics() -> PlainTextResponse:
        """Counters in the format of Prometheus"""
        metrics = {
            ("regard_queue_depth", "gauge"): sum(queue.depth for queue in queues),
            ("regard_texts_total", "counter"): sum(queue.done for queue in queues),
            ("regard_batches_total", "counter"): sum(queue.batches for queue in queues),
            ("regard_refused_total", "counter"): sum(queue.refused for queue in queues),
            ("regard_given_up_total", "counter"): sum(queue.given_up for queue in queues),
            ("regard_traces", "gauge"): len(store),
        }
        lines = [f"# TYPE {name} {kind}\n{name} {value}\n" for (name, kind), value in metrics.items()]
        return PlainTextResponse("".join(lines), media_type="text/plain; version=0.0.4")
