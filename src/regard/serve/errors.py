"""Errors in the format of the API that a request belongs to: short, and never repeating what the request contains."""

import logging
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from regard.errors import UserError
from regard.serve.batch_queue import JobTimeout, QueueClosed, QueueFull
from regard.serve.schemas.base import ResponseBody
from regard.serve.schemas.errors import (
    LibreTranslateErrorBody,
    ModelListProblem,
    OpenAIErrorBody,
    OpenAIErrorDetail,
    ProblemDetails,
)

_MAX_DETAIL = 200  # characters
_OWN_PATHS = tuple(
    f"/v1/{name}" for name in ("translate", "sentences", "tokenize", "describe", "trace", "explain", "next")
)
"""Paths under /v1 that are not OpenAI's"""
LIBRETRANSLATE_PATHS = (
    "/translate",
    "/translate_file",
    "/download_file",
    "/detect",
    "/languages",
    "/suggest",
    "/frontend/settings",
    "/spec",
    "/health",
)
_TEXT_TOO_LONG = "context_length_exceeded"
_OPENAI_CODES = {401: "invalid_api_key", 404: "unknown_url", 405: "method_not_supported", 429: "rate_limit_exceeded"}
"""Codes of errors that have none of their own"""
_PARAMETER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_log = logging.getLogger(__name__)


class ApiError(Exception):
    """A request that is refused or failed: status, a short title, and what to change.

    `param` and `code` are for OpenAI's clients: the name of the wrong parameter, and the kind of mistake.
    """

    def __init__(
        self,
        status: int,
        title: str,
        detail: str = "",
        headers: Mapping[str, str] | None = None,
        *,
        param: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(title)
        self.status = status
        self.title = title
        self.detail = detail[:_MAX_DETAIL]
        self.headers = dict(headers or {})
        self.param = param
        self.code = code

    @property
    def message(self) -> str:
        return self.detail or self.title

    def response(self, path: str) -> Response:
        """Return the error in the format of the API that has this path."""
        error_format = format_of_path(path)
        statuses = error_format.statuses
        status = statuses.get(self.code or "", statuses.get(self.status, self.status))
        headers = {"content-type": error_format.content_type, **self.headers}
        return Response(error_format.body(self).model_dump_json(), status, headers)


def unknown_model() -> ApiError:
    return ApiError(
        404, "Not found", "there is no model of that name, see /v1/models", param="model", code="model_not_found"
    )


def text_too_long(detail: str) -> ApiError:
    """The error for a text with too many characters or tokens"""
    return ApiError(413, "Content too large", detail, code=_TEXT_TOO_LONG)


def invalid_parameter(param: str, detail: str) -> ApiError:
    """The error for a parameter of OpenAI's API that has a wrong value"""
    return ApiError(422, "Invalid request", f"invalid value of '{param}': {detail}", param=param, code="invalid_value")


@dataclass(frozen=True)
class ErrorFormat:
    """How an API reports errors."""

    body: Callable[[ApiError], ResponseBody]
    content_type: str = "application/json"
    statuses: Mapping[int | str, int] = field(default_factory=dict)
    """Statuses that the API uses instead of those of ApiError, by code or status"""


def format_of_path(path: str) -> ErrorFormat:
    """Return how to report errors to a client that requests this path."""
    if is_libretranslate(path):
        return _LIBRETRANSLATE
    if path == "/v1/models":
        return _MODEL_LIST
    # OpenAI's clients also request paths under /v1 that this server does not have.
    is_openai = _is_under(path, "/v1") and not any(_is_under(path, own) for own in _OWN_PATHS)
    return _OPENAI if is_openai else _PROBLEM


def is_libretranslate(path: str) -> bool:
    return any(_is_under(path, known) for known in LIBRETRANSLATE_PATHS)


def _is_under(path: str, parent: str) -> bool:
    return path == parent or path.startswith(parent + "/")


def openai_error(error: ApiError) -> OpenAIErrorBody:
    """Return the error as OpenAI's clients read it."""
    if error.status == 429:
        kind = "rate_limit_error"
    else:
        kind = "server_error" if error.status >= 500 else "invalid_request_error"
    code = error.code or _OPENAI_CODES.get(error.status)
    detail = OpenAIErrorDetail.model_validate(
        {"message": error.message, "type": kind, "param": error.param, "code": code}
    )
    return OpenAIErrorBody(error=detail)


def _problem(error: ApiError) -> ProblemDetails:
    return ProblemDetails(title=error.title, status=error.status, detail=error.detail)


def _model_list_problem(error: ApiError) -> ModelListProblem:
    detail = openai_error(error).error
    return ModelListProblem(title=error.title, status=error.status, detail=error.detail, error=detail)


_PROBLEM = ErrorFormat(_problem, "application/problem+json")
_MODEL_LIST = ErrorFormat(_model_list_problem, "application/problem+json")
_OPENAI = ErrorFormat(openai_error, statuses={_TEXT_TOO_LONG: 400, 422: 400})
_LIBRETRANSLATE = ErrorFormat(
    lambda error: LibreTranslateErrorBody(error=error.message), statuses={_TEXT_TOO_LONG: 400, 401: 403, 422: 400}
)


def as_api_error(error: BaseException) -> ApiError:
    """Turn an error of a job or a route into what the client is told."""
    match error:
        case ApiError():
            return error
        case QueueFull():
            headers = {"retry-after": str(QueueFull.retry_after)}
            return ApiError(429, "Too many requests", "the server is busy; try again", headers)
        case QueueClosed():
            headers = {"retry-after": str(QueueFull.retry_after)}
            return ApiError(503, "Service unavailable", "the server is stopping; try again", headers)
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
        path, problems = request.url.path, error.errors()
        if problems[0]["type"] == "json_invalid":
            return ApiError(400, "Invalid request", "the body is not valid JSON").response(path)
        if format_of_path(path) is _OPENAI:
            return _invalid_parameter(_clearest(problems)).response(path)
        return _invalid_field(problems[0]).response(path)

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> Response:
        titles = {404: "Not found", 405: "Method not allowed"}
        title = titles.get(error.status_code, "Error")
        return ApiError(error.status_code, title, title, error.headers).response(request.url.path)

    for kind in (ApiError, QueueFull, QueueClosed, JobTimeout, UserError):

        @app.exception_handler(kind)
        async def _known(request: Request, error: Exception) -> Response:
            return as_api_error(error).response(request.url.path)


def _invalid_field(problem: Mapping[str, Any]) -> ApiError:
    """Describe what pydantic found for the page's own API."""
    if problem["type"] == "extra_forbidden":  # the name of the field would repeat part of the request
        return ApiError(422, "Invalid request", "the request has an unknown field")
    name = next((part for part in problem["loc"][1:2] if isinstance(part, str)), "the request")
    if problem["type"] == "string_too_long":
        return ApiError(422, "Invalid request", f"{name} {_too_long(problem)}")
    return ApiError(422, "Invalid request", f"{name} is missing, has a wrong type or is out of bounds")


def _too_long(problem: Mapping[str, Any]) -> str:
    most = problem["ctx"]["max_length"]
    return f"has {len(problem['input']):,} characters, more than the limit of {most:,}"


def _clearest(problems: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the problem of the first wrong field that says most.

    If a field may have several types, pydantic reports what is wrong for each of them.
    """
    of_field = [problem for problem in problems if problem["loc"][:2] == problems[0]["loc"][:2]]
    clear = [problem for problem in of_field if not problem["type"].endswith("_type")]
    return clear[0] if clear else {**of_field[0], **({"msg": "it has a wrong type"} if len(of_field) > 1 else {})}


def _invalid_parameter(problem: Mapping[str, Any]) -> ApiError:
    """Describe what pydantic found for OpenAI's clients, with the name of the parameter."""
    path = problem["loc"][1:]
    name = path[0] if path and isinstance(path[0], str) else None
    if name is None:
        return ApiError(422, "Invalid request", "the body must be a JSON object", code="invalid_value")
    match problem["type"]:
        case "extra_forbidden":
            unknown = str(path[-1])
            shown = unknown if _PARAMETER_NAME.fullmatch(unknown) else None
            message = f"unknown parameter: '{shown}'" if shown else "the request has an unknown parameter"
            message += f" in '{name}'" if len(path) > 1 else ""
            return ApiError(422, "Invalid request", message, param=shown, code="unknown_parameter")
        case "missing":
            message = f"missing required parameter: '{path[-1]}'" + (f" in '{name}'" if len(path) > 1 else "")
            return ApiError(422, "Invalid request", message, param=name, code="missing_required_parameter")
        case "unsupported_parameter":
            message = f"unsupported value of '{name}': {problem['msg']}"
            return ApiError(422, "Invalid request", message, param=name, code="unsupported_parameter")
        case "string_too_long":
            return invalid_parameter(name, f"it {_too_long(problem)}")
    return invalid_parameter(name, problem["msg"])
