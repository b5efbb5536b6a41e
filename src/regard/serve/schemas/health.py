"""Responses about the state of the server."""

from typing import Literal

from regard.serve.schemas.base import ResponseBody


class HealthResponse(ResponseBody):
    status: Literal["ok"] = "ok"


class ReadyResponse(ResponseBody):
    status: Literal["ready", "busy", "draining"]
    """busy: ready, but a queue is full at the moment; draining: about to stop"""
