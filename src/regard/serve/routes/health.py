"""Whether the server runs and is ready, and its metrics."""

from collections.abc import Sized

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse

from regard.serve.activity import Activity
from regard.serve.dispatch import Dispatcher
from regard.serve.metrics import MEDIA_TYPE, write_metrics
from regard.serve.schemas.health import HealthResponse, ReadyResponse


def router(dispatcher: Dispatcher, activity: Activity, traces: Sized, files: Sized) -> APIRouter:
    routes = APIRouter(tags=["health"])

    @routes.get("/healthz")
    async def healthz() -> HealthResponse:
        """Whether the server runs"""
        return HealthResponse()

    @routes.get("/readyz", responses={503: {"model": ReadyResponse}})
    async def readyz(response: Response) -> ReadyResponse:
        """Whether the server should get requests: its models are loaded, and it is not about to stop"""
        if activity.draining:
            response.status_code = 503
            return ReadyResponse(status="draining")
        is_busy = any(queue.depth >= queue.limits.queue for queue in dispatcher.queues.values())
        return ReadyResponse(status="busy" if is_busy else "ready")

    @routes.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> PlainTextResponse:
        """Metrics in the format of Prometheus"""
        stored = {"traces": len(traces), "files": len(files)}
        return PlainTextResponse(write_metrics(dispatcher.queues, activity, stored), media_type=MEDIA_TYPE)

    return routes
