"""The OpenAPI document of the server: additions to what FastAPI derives from the routes."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import Response
from pydantic.json_schema import models_json_schema

from regard.serve.schemas.base import ProblemDetails, ResponseBody
from regard.serve.schemas.openai import ChatChunk, CompletionChunk, StreamError
from regard.serve.schemas.v1_responses import FailedEvent, SaidEvent

_REFERENCE = "#/components/schemas/{model}"
_ADDED = (ProblemDetails, SaidEvent, FailedEvent, CompletionChunk, ChatChunk, StreamError)
"""Bodies that FastAPI does not find: errors and streamed events"""

Responses = dict[int | str, dict[str, Any]]
ERRORS: Responses = {
    status: {
        "description": "Error",
        "content": {"application/problem+json": {"schema": {"$ref": _REFERENCE.format(model="ProblemDetails")}}},
    }
    for status in ("4XX", "5XX")
}
"""The errors that any route can return"""


class SafetensorsResponse(Response):
    media_type = "application/x-safetensors"


def event_stream(description: str, *bodies: type[ResponseBody]) -> Responses:
    """Describe a response that is a stream of these bodies if the request asks for one."""
    schema = {"oneOf": [{"$ref": _REFERENCE.format(model=body.__name__)} for body in bodies]}
    content = {"text/event-stream": {"schema": {"description": f"Data of each event: {description}", **schema}}}
    return {200: {"description": "The whole response, or with `stream` server-sent events", "content": content}}


def add_document(app: FastAPI) -> None:
    """Make `app.openapi` describe errors and streamed events too."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = get_openapi(title=app.title, version=app.version, routes=app.routes)
            _, added = models_json_schema([(body, "serialization") for body in _ADDED], ref_template=_REFERENCE)
            schemas = app.openapi_schema["components"]["schemas"]
            app.openapi_schema["components"]["schemas"] = dict(sorted({**added["$defs"], **schemas}.items()))
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]  # FastAPI's documented way to extend the document
