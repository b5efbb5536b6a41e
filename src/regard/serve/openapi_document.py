"""The OpenAPI document of the server: additions to what FastAPI derives from the routes."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import Response
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from regard.serve.schemas.base import RequestBody, ResponseBody
from regard.serve.schemas.errors import LibreTranslateErrorBody, ModelListProblem, OpenAIErrorBody, ProblemDetails
from regard.serve.schemas.libretranslate import DetectRequest, LibreTranslateRequest, SuggestRequest
from regard.serve.schemas.openai_responses import ChatChunk, CompletionChunk
from regard.serve.schemas.translate_file import TranslateFileRequest
from regard.serve.schemas.v1_responses import FailedEvent, ProgressEvent

_REFERENCE = "#/components/schemas/{model}"
_ADDED: list[tuple[type[BaseModel], JsonSchemaMode]] = [
    (LibreTranslateRequest, "validation"),
    (DetectRequest, "validation"),
    (SuggestRequest, "validation"),
    (TranslateFileRequest, "validation"),
    (ProblemDetails, "serialization"),
    (ModelListProblem, "serialization"),
    (OpenAIErrorBody, "serialization"),
    (LibreTranslateErrorBody, "serialization"),
    (ProgressEvent, "serialization"),
    (FailedEvent, "serialization"),
    (CompletionChunk, "serialization"),
    (ChatChunk, "serialization"),
]
"""Bodies that FastAPI does not find in the routes: forms, errors and streamed events"""

Responses = dict[int | str, dict[str, Any]]


def errors(body: type[ResponseBody], media_type: str = "application/json") -> Responses:
    """Describe the errors that any route of an API can return."""
    content = {media_type: {"schema": {"$ref": _REFERENCE.format(model=body.__name__)}}}
    return {status: {"description": "Error", "content": content} for status in ("4XX", "5XX")}


_PROBLEM_JSON = "application/problem+json"
ERRORS = errors(ProblemDetails, _PROBLEM_JSON)
MODEL_LIST_ERRORS = errors(ModelListProblem, _PROBLEM_JSON)
OPENAI_ERRORS = errors(OpenAIErrorBody)
LIBRETRANSLATE_ERRORS = errors(LibreTranslateErrorBody)


class SafetensorsResponse(Response):
    media_type = "application/x-safetensors"


class DownloadResponse(Response):
    media_type = "application/octet-stream"


def event_stream(description: str, *bodies: type[ResponseBody]) -> Responses:
    """Describe a response that is a stream of these bodies if the request asks for one."""
    schema = {"oneOf": [{"$ref": _REFERENCE.format(model=body.__name__)} for body in bodies]}
    content = {"text/event-stream": {"schema": {"description": f"Data of each event: {description}", **schema}}}
    return {200: {"description": "The whole response, or with `stream` server-sent events", "content": content}}


def form_or_json(body: type[RequestBody]) -> dict[str, Any]:
    """Describe a request whose body is JSON or a form (`openapi_extra` of a route)."""
    schema = {"schema": {"$ref": _REFERENCE.format(model=body.__name__)}}
    media_types = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data")
    content = dict.fromkeys(media_types, schema)
    return {"requestBody": {"required": True, "content": content}}


def multipart_form(body: type[RequestBody]) -> dict[str, Any]:
    """Describe a request whose body is a form with a file (`openapi_extra` of a route)."""
    content = {"multipart/form-data": {"schema": {"$ref": _REFERENCE.format(model=body.__name__)}}}
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
