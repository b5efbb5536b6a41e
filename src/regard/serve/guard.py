"""What every request passes before any route sees it: host, token, size, time. Closed unless it is opened."""

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

from starlette.responses import Response

from regard.serve.errors import ApiError
from regard.serve.limits import Limits

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN = ("/healthz", "/readyz", "/health")
"""Routes that say nothing but whether the server lives"""
COOKIE = "regard_token"
BODY_SECONDS = 10.0
HEADERS = {
    "content-security-policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@dataclass(frozen=True)
class Access:
    """Who may ask."""

    hosts: frozenset[str]
    """Names under which the server may be asked; another one is a page elsewhere that was led here (DNS rebinding)"""
    token: str | None = None
    """Needed with every request if there is one: `Authorization: Bearer …`, or the cookie that `/?token=…` leaves"""


class Guard:
    def __init__(self, app: App, access: Access, limits: Limits) -> None:
        self.app = app
        self.access = access
        self.limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        if scope["type"] != "http":  # there are no sockets here
            return
        send = _with_headers(send)
        try:
            headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
            self._check_host(headers)
            if scope["path"] not in OPEN:
                if (entry := self._entry(scope)) is not None:
                    await entry(scope, receive, send)
                    return
                self._check_token(headers)
            body = await self._body(headers, receive)
        except ApiError as problem:
            await problem.response()(scope, receive, send)
            return
        await self.app(scope, _replay(body, receive), send)

    def _check_host(self, headers: dict[str, str]) -> None:
        given = headers.get("host", "")
        host = given.split("]")[0] + "]" if given.startswith("[") else given.rsplit(":", 1)[0]
        if "*" not in self.access.hosts and host not in self.access.hosts:
            raise ApiError(421, "Misdirected request", "this server is not known by that name; add it with --host-name")

    def _check_token(self, headers: dict[str, str]) -> None:
        if self.access.token is None:
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            jar = SimpleCookie()
            with suppress(CookieError):
                jar.load(headers.get("cookie", ""))
            given = jar[COOKIE].value if COOKIE in jar else ""
        if not self._right(given):
            raise ApiError(
                401, "Unauthorised", "send the server's token as a bearer token", {"www-authenticate": "Bearer"}
            )

    def _right(self, given: str) -> bool:
        return self.access.token is None or secrets.compare_digest(given.encode(), self.access.token.encode())

    def _entry(self, scope: Scope) -> Response | None:
        """A browser cannot send a token with a page: `/?token=…` leaves it as a cookie that scripts cannot read."""
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        if self.access.token is None or scope["path"] != "/" or len(given) != 1 or not self._right(given[0]):
            return None
        response = Response(status_code=303, headers={"location": "/"})
        response.set_cookie(COOKIE, given[0], httponly=True, samesite="strict")
        return response

    async def _body(self, headers: dict[str, str], receive: Receive) -> bytes:
        """All of it, within bounds of size and time; nothing is read on once it is too long."""
        too_long = ApiError(413, "Content too large", f"a request may have {self.limits.body:,} bytes")
        declared = headers.get("content-length", "0")
        if not declared.isdecimal() or len(declared) > 12 or int(declared) > self.limits.body:
            raise too_long
        body = b""
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ApiError(499, "Client closed request")
                    body += message.get("body", b"")
                    if len(body) > self.limits.body:
                        raise too_long
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            raise ApiError(408, "Request timeout", "the body came too slowly") from None
        _check_text(body, headers.get("content-type", "").lower())
        return body


def _check_text(body: bytes, kind: str) -> None:
    """JSON that Python would take but no client should send: not UTF-8, NaN, lone surrogates, too deep, too large"""
    if not body or "json" not in kind:
        return
    bad = ApiError(400, "Invalid request", "the body is no JSON in UTF-8")
    try:
        text = body.decode("utf-8")
        tree = json.loads(text, parse_constant=lambda name: _refuse(), parse_float=_finite)
        json.dumps(tree, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError):
        raise bad from None


def _refuse() -> float:
    raise ValueError


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError
    return number


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body once, and then what the client does: it may go away."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            present = {name for name, _ in message["headers"]}
            own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            message["headers"] = [*message["headers"], *(pair for pair in own if pair[0] not in present)]
        await send(message)

    return sending
