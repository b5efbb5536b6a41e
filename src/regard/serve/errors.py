"""What goes wrong, as application/problem+json (RFC 9457): short, and never with anything of the request in it."""

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from regard.errors import UserError
from regard.serve.queue import Full, TooLate

_DETAIL = 200  # characters


class ApiError(Exception):
    """A refusal: status, a short title, and what to change."""

    def __init__(self, status: int, title: str, detail: str = "", headers: dict[str, str] | None = None) -> None:
        super().__init__(title)
        self.status = status
        self.title = title
        self.detail = detail
        self.headers = headers or {}

    def response(self) -> JSONResponse:
        body = {"type": "about:blank", "title": self.title, "status": self.status, "detail": self.detail[:_DETAIL]}
        # LibreTranslate's clients look for `error`, OpenAI's for `error.message`; both accept a string there.
        return JSONResponse(
            {**body, "error": self.detail[:_DETAIL] or self.title},
            self.status,
            {"content-type": "application/problem+json", **self.headers},
        )


def problem_of(error: BaseException) -> ApiError:
    """What the worker ended with, as whoever waits is told"""
    match error:
        case Full():
            again = {"retry-after": str(Full.retry_after)}
            return ApiError(429, "Too many requests", "the queue is full; try again", again)
        case TooLate():
            return ApiError(504, "Too late", "it took longer than is allowed; try a shorter text")
        case UserError():
            return ApiError(422, "Invalid request", "the model cannot do that with this text or these options")
    return ApiError(500, "Our fault", "something went wrong here")


def add_handlers(app: FastAPI) -> None:
    @app.exception_handler(ApiError)
    async def _problem(request: Request, error: ApiError) -> JSONResponse:
        return error.response()

    @app.exception_handler(RequestValidationError)
    async def _invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first: dict[str, Any] = next(iter(error.errors()), {"loc": (), "type": ""})
        if first["type"] == "json_invalid":
            return ApiError(400, "Invalid request", "the body is no JSON").response()
        if first["type"] == "extra_forbidden":  # its name would be an echo
            return ApiError(422, "Invalid request", "there is a field that is not known here").response()
        where = next((part for part in first["loc"][1:2] if isinstance(part, str)), "the request")
        return ApiError(422, "Invalid request", f"{where} is missing, of another type or out of bounds").response()

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> JSONResponse:
        titles = {404: "Not found", 405: "Method not allowed"}
        title = titles.get(error.status_code, "Error")
        return ApiError(error.status_code, title, title, dict(error.headers or {})).response()

    for kind in (Full, TooLate, UserError):

        @app.exception_handler(kind)
        async def _ended(request: Request, error: Exception) -> JSONResponse:
            return problem_of(error).response()
