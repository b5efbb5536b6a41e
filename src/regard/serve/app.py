"""The application: routes behind a guard, and queues whose workers run the models."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI

from regard import __version__
from regard.pipelines.translator import Translator
from regard.serve.activity import Activity
from regard.serve.dispatch import Dispatcher
from regard.serve.errors import add_error_handlers
from regard.serve.file_store import FileStore
from regard.serve.guard import Access, Guard
from regard.serve.language_pairs import LanguagePairs
from regard.serve.limits import Limits
from regard.serve.openapi_document import add_document
from regard.serve.page import read_page
from regard.serve.registry import Registry
from regard.serve.routes import health, libretranslate, openai, stages, trace, translate_file, v1
from regard.serve.suggestion_file import SuggestionFile
from regard.serve.trace_store import TraceStore

STATIC = Path(__file__).parent / "static"


def make_app(
    registry: Registry, access: Access, limits: Limits | None = None, suggestions: SuggestionFile | None = None
) -> FastAPI:
    limits = limits or Limits()
    dispatcher, activity = Dispatcher(registry, limits), Activity()
    store, files = TraceStore(limits), FileStore(limits)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        dispatcher.close()
        files.clear()

    app = FastAPI(title="regard", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.dispatcher, app.state.activity, app.state.traces = dispatcher, activity, store
    add_error_handlers(app)
    add_document(app)
    app.include_router(health.router(dispatcher, activity, store, files))
    app.include_router(v1.router(dispatcher))
    app.include_router(trace.router(dispatcher, store))
    app.include_router(stages.router(dispatcher, store))
    app.include_router(openai.router(dispatcher))
    pairs = LanguagePairs(registry.of_kind(Translator))
    app.include_router(libretranslate.router(dispatcher, pairs, suggestions, access.token is not None))
    app.include_router(translate_file.router(dispatcher, pairs, files))
    for path, file in read_page(STATIC).items():
        app.add_route(path, file.respond)
    app.add_middleware(Guard, access=access, limits=limits, activity=activity)
    return app
