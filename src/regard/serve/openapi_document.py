"""The OpenAPI document of the server: additions to what FastAPI derives from the routes."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import Response
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from regard.serve.schemas.base import ProblemDetails, RequestBody, ResponseBody
from regard.serve.schemas.libretranslate import DetectRequest, LibreTranslateRequest
from regard.serve.schemas.openai import ChatChunk, CompletionChunk, StreamError
from regard.serve.schemas.v1_responses import FailedEvent, ProgressEvent

_REFERENCE = "#/components/schemas/{model}"
_ADDED: list[tuple[type[BaseModel], JsonSchemaMode]] = [
    (LibreTranslateRequest, "validation"),
    (DetectRequest, "validation"),
    (ProblemDetails, "serialization"),
    (ProgressEvent, "serialization"),
    (FailedEvent, "serialization"),
    (CompletionChunk, "serialization"),
    (ChatChunk, "serialization"),
    (StreamError, "serialization"),
]
"""Bodies that FastAPI does not find in the routes: forms, errors and streamed events"""

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


def form_or_json(body: type[RequestBody]) -> dict[str, Any]:
    """Describe a request whose body is JSON or a form (`openapi_extra` of a route)."""
    schema = {"schema": {"$ref": _REFERENCE.format(model=body.__name__)}}
    content = {"application/json": schema, "application/x-www-form-urlencoded": schema}
    return {"requestBody": {"required": True, "content": content}}


def add_document(app: FastAPI) -> None:
    """Make `app.openapi` describe forms, errors and streamed events too."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = get_openapi(title=app.title, version=app.version, routes=app.routes)
            _, added = models_json_schema(_ADDED, ref_template=_REFERENCE)
            schemas = app.openapi_schema["components"]["schemas"]
            app.openapi_schema["components"]["schemas"] = dict(sorted({**added["$defs"], **schemas}.items()))
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]  # FastAPI's documented way to extend the document
