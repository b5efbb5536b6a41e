"""Bodies of error responses, in the format of each API."""

from typing import Literal

from regard.serve.schemas.base import ResponseBody


class ProblemDetails(ResponseBody):
    """An error of the page's own API, as application/problem+json (RFC 9457)."""

    type: Literal["about:blank"] = "about:blank"
    title: str
    status: int
    detail: str


class OpenAIErrorDetail(ResponseBody):
    message: str
    type: Literal["invalid_request_error", "rate_limit_error", "server_error"]
    param: str | None
    """The parameter that is wrong"""
    code: str | None
    """The kind of mistake, such as model_not_found"""


class OpenAIErrorBody(ResponseBody):
    """An error of OpenAI's API. In a stream, it takes the place of the remaining chunks."""

    error: OpenAIErrorDetail


class ModelListProblem(ProblemDetails):
    """An error of the list of models, which the page and OpenAI's clients read."""

    error: OpenAIErrorDetail


class LibreTranslateErrorBody(ResponseBody):
    """An error of LibreTranslate's API."""

    error: str
