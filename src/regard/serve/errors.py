"""Errors as application/problem+json (RFC 9457): short, and never repeating parts of the request."""

import logging
import secrets
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from regard.errors import UserError
from regard.serve.batch_queue import JobTimeout, QueueFull
from regard.serve.schemas.base import ProblemDetails

_MAX_DETAIL = 200  # characters
_log = logging.getLogger(__name__)


class ApiError(Exception):
    """A request that is refused or failed: status, a short title, and what to change."""

    def __init__(self, status: int, title: str, detail: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(title)
        self.status = status
        self.title = title
        self.detail = detail[:_MAX_DETAIL]
        self.headers = dict(headers or {})

    def response(self) -> Response:
        body = ProblemDetails(title=self.title, status=self.status, detail=self.detail, error=self.detail or self.title)
        headers = {"content-type": "application/problem+json", **self.headers}
        return Response(body.model_dump_json(), self.status, headers)


def as_api_error(error: BaseException) -> ApiError:
    """Turn an error of a job or a route into what the client is told."""
    match error:
        case ApiError():
            return error
        case QueueFull():
            headers = {"retry-after": str(QueueFull.retry_after)}
            return ApiError(429, "Too many requests", "the queue is full; try again", headers)
        case JobTimeout():
            return ApiError(504, "Timeout", "the request took longer than the server allows; try a shorter text")
        case UserError():
            # The message of the error may contain parts of the request.
            return ApiError(422, "Invalid request", "the model cannot process this text with these options")
    request_id = secrets.token_hex(8)
    _log.error("internal error, request id %s", request_id, exc_info=error)
    return ApiError(500, "Internal error", f"internal error; its request id in the server's log is {request_id}")


def add_error_handlers(app: FastAPI) -> None:
    @app.exception_handler(RequestValidationError)
    async def _invalid(request: Request, error: RequestValidationError) -> Response:
        first: Mapping[str, Any] = next(iter(error.errors()), {"loc": (), "type": ""})
        if first["type"] == "json_invalid":
            return ApiError(400, "Invalid request", "the body is not valid JSON").response()
        if first["type"] == "extra_forbidden":  # the name of the field would repeat part of the request
            return ApiError(422, "Invalid request", "the request has an unknown field").response()
        field = next((part for part in first["loc"][1:2] if isinstance(part, str)), "the request")
        return ApiError(422, "Invalid request", f"{field} is missing, has a wrong type or is out of bounds").response()

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> Response:
        titles = {404: "Not found", 405: "Method not allowed"}
        title = titles.get(error.status_code, "Error")
        return ApiError(error.status_code, title, title, error.headers).response()

    for kind in (ApiError, QueueFull, JobTimeout, UserError):

        @app.exception_handler(kind)
        async def _known(request: Request, error: Exception) -> Response:
            return as_api_error(error).response()
