"""Reads the body of a request within the limits of size and time, and refuses JSON that is not valid."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.types import Message, Receive

from regard.serve.batch_queue import QueueFull
from regard.serve.errors import ApiError
from regard.serve.limits import Limits
from regard.serve.request_head import RequestHead

BODY_SECONDS = 10.0
_UPLOAD_PATH = "/translate_file"
_UPLOAD_SECONDS = 60.0
_MAX_DEPTH = 64  # of JSON; functions that call themselves for each level may fail long before Python's own limit


def check_framing(head: RequestHead) -> None:
    """Refuse a request with two statements of its length: a proxy in front may have believed the other one."""
    if "transfer-encoding" in head.headers and "content-length" in head.headers:
        detail = "a request has content-length or transfer-encoding, not both"
        raise ApiError(400, "Invalid request", detail, {"connection": "close"})


class UploadPlaces:
    """Places for requests with a file, of which few at a time are in memory."""

    def __init__(self, limits: Limits) -> None:
        self.n_free = limits.file_requests
        self.n_reserved = limits.file_requests // 2
        """Places for clients whose token is known before the file is read"""

    @contextmanager
    def take(self, head: RequestHead, is_known: bool) -> Iterator[None]:
        """Take a place while a request is answered, if it has a file; refuse it if there is none."""
        n_needed = int(_is_upload(head))
        if n_needed and self.n_free <= (0 if is_known else self.n_reserved):
            raise QueueFull
        self.n_free -= n_needed
        try:
            yield
        finally:
            self.n_free += n_needed


def _is_upload(head: RequestHead) -> bool:
    return head.path == _UPLOAD_PATH and head.header("content-type").lower().startswith("multipart/form-data")


async def read_body(head: RequestHead, receive: Receive, limits: Limits) -> bytes:
    """Read the whole body; stop reading when it is too large."""
    is_upload = _is_upload(head)
    most = limits.body + (limits.file if is_upload else 0)
    declared = head.headers.get("content-length", "0")
    if not declared.isdecimal() or len(declared) > 12 or int(declared) > most:
        raise _too_large(most)
    body = bytearray()
    try:
        async with asyncio.timeout(_UPLOAD_SECONDS if is_upload else BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ApiError(499, "Client closed request")
                body += message.get("body", b"")
                if len(body) > most:
                    raise _too_large(most)
                if not message.get("more_body", False):
                    break
    except TimeoutError:
        raise ApiError(408, "Request timeout", "the body did not arrive in time") from None
    if "json" in head.header("content-type").lower():
        _check_json(bytes(body))
    return bytes(body)


def replay(body: bytes, receive: Receive) -> Receive:
    """Return a receive function that gives the body once, and then what the client sends: it may disconnect."""
    replayed = False

    async def receive_again() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def _too_large(most: int) -> ApiError:
    return ApiError(413, "Content too large", f"a request may have {most:,} bytes")


def _check_json(body: bytes) -> None:
    """Refuse JSON that Python accepts but the standard does not (NaN, lone surrogates, numbers out of range).

    What is nested deeply is refused too.
    """
    if not body:
        return
    try:
        tree = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant, parse_float=_parse_finite)
        if b"\\u" in body:  # only in this way can a string have a surrogate
            json.dumps(tree, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError):
        raise ApiError(400, "Invalid request", "the body is not valid JSON in UTF-8") from None
    if body.count(b"[") + body.count(b"{") > _MAX_DEPTH and _is_deep(tree):
        raise ApiError(400, "Invalid request", "the body is JSON with too many lists or objects inside each other")


def _is_deep(tree: object) -> bool:
    """Return whether more than `_MAX_DEPTH` lists or objects are inside each other."""
    level = [tree]
    for _ in range(_MAX_DEPTH + 1):
        containers = [node for node in level if isinstance(node, dict | list)]
        level = [child for node in containers for child in (node.values() if isinstance(node, dict) else node)]
    return bool(level)


def _refuse_constant(name: str) -> float:
    raise ValueError(name)


def _parse_finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(text)
    return number
