"""The application: routes behind a guard, one queue, one worker."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse
from fastapi.staticfiles import StaticFiles

from regard import __version__
from regard.serve.dispatch import Desk
from regard.serve.errors import add_handlers
from regard.serve.guard import Access, Guard
from regard.serve.limits import Limits
from regard.serve.queue import Queue
from regard.serve.registry import Registry
from regard.serve.routes import libretranslate, openai, v1
from regard.serve.routes import trace as tracing
from regard.serve.trace_store import Traces

STATIC = Path(__file__).parent / "static"


def make_app(registry: Registry, access: Access, limits: Limits | None = None) -> FastAPI:
    limits = limits or Limits()
    desk, traces = Desk(registry, Queue(limits), limits), Traces(limits)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        desk.queue.close()

    app = FastAPI(title="regard", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.desk = desk
    add_handlers(app)
    _add_health(app, desk, traces)
    app.include_router(openai.router(desk, int(time.time())))
    app.include_router(v1.router(desk))
    app.include_router(tracing.router(desk, traces))
    app.include_router(libretranslate.router(desk))
    if STATIC.is_dir():
        _add_page(app)
    app.add_middleware(Guard, access=access, limits=limits)
    return app


def _add_page(app: FastAPI) -> None:
    """The built page. Its files are named here: a mount at the root would answer for every route that there is not."""
    app.mount("/assets", StaticFiles(directory=STATIC / "assets"), name="assets")
    for path in STATIC.iterdir():
        if path.suffix in (".html", ".svg"):
            route = "/" if path.name == "index.html" else f"/{path.name}"
            app.get(route, include_in_schema=False)(partial(_file, path))


async def _file(path: Path) -> FileResponse:
    return FileResponse(path, headers={"cache-control": "no-cache"})


def _add_health(app: FastAPI, desk: Desk, traces: Traces) -> None:
    @app.get("/healthz", tags=["health"])
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/readyz", tags=["health"])
    async def readyz() -> Any:
        full = desk.queue.depth >= desk.limits.queue
        return JSONResponse({"status": "busy" if full else "ready"}, 503 if full else 200)

    @app.get("/metrics", tags=["health"])
    async def metrics() -> PlainTextResponse:
        queue = desk.queue
        rows = {
            ("regard_queue_depth", "gauge"): queue.depth,
            ("regard_texts_total", "counter"): queue.done,
            ("regard_batches_total", "counter"): queue.batches,
            ("regard_refused_total", "counter"): queue.refused,
            ("regard_given_up_total", "counter"): queue.given_up,
            ("regard_traces", "gauge"): len(traces),
        }
        lines = [f"# TYPE {name} {kind}\n{name} {value}\n" for (name, kind), value in rows.items()]
        return PlainTextResponse("".join(lines), media_type="text/plain; version=0.0.4")
