"""Around all routes: checks of host name, access token and body before, headers and unexpected errors after."""

import asyncio
import json
import secrets
from contextlib import suppress
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serve.errors import ApiError, as_api_error
from regard.serve.limits import Limits

PUBLIC_PATHS = ("/healthz", "/readyz", "/health")
"""Paths that need no token; they only tell whether the server runs"""
COOKIE = "regard_token"
BODY_SECONDS = 10.0
HEADERS = {
    "content-security-policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Added to every response that does not have them"""
_ENCODED_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


@dataclass(frozen=True)
class Access:
    """Who may use the server."""

    hosts: frozenset[str]
    """Host names that requests may have; any other may be DNS rebinding by a foreign page. "*" allows all"""
    token: str | None = None
    """If set, every request needs it: `Authorization: Bearer …`, or the cookie that `/?token=…` sets"""


class Guard:
    """Middleware that refuses a request unless `Access` and `Limits` allow it, and answers unexpected errors."""

    def __init__(self, app: ASGIApp, access: Access, limits: Limits) -> None:
        self.app = app
        self.hosts = {host.lower() for host in access.hosts}
        self.token = access.token
        self.limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        if scope["type"] != "http":  # there are no web sockets here
            return
        sender = SenderWithHeaders(send)
        try:
            headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
            self._check_host(headers)
            if scope["path"] not in PUBLIC_PATHS:
                if (login := self._login(scope)) is not None:
                    await login(scope, receive, sender)
                    return
                self._check_token(headers)
            body = await self._read_body(headers, receive)
            await self.app(scope, _replay(body, receive), sender)
        except Exception as error:  # the application answers errors that it expects
            response = as_api_error(error).response()
            if sender.started:  # too late to answer; the connection is closed
                raise
            await response(scope, receive, sender)

    def _check_host(self, headers: dict[str, str]) -> None:
        host = headers.get("host", "").lower()
        host = host.split("]")[0] + "]" if host.startswith("[") else host.rsplit(":", 1)[0]
        if "*" not in self.hosts and host not in self.hosts:
            raise ApiError(421, "Misdirected request", "this server has another host name; add one with --host-name")

    def _check_token(self, headers: dict[str, str]) -> None:
        if self.token is None:
            return
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            cookies = SimpleCookie()
            with suppress(CookieError):
                cookies.load(headers.get("cookie", ""))
            token = cookies[COOKIE].value if COOKIE in cookies else ""
        if not self._is_token(token):
            raise ApiError(
                401, "Unauthorised", "send the server's token as a bearer token", {"www-authenticate": "Bearer"}
            )

    def _is_token(self, token: str) -> bool:
        return self.token is None or secrets.compare_digest(token.encode(), self.token.encode())

    def _login(self, scope: Scope) -> Response | None:
        """Answer `/?token=…` by setting a cookie that scripts cannot read: a browser sends no token with a page."""
        tokens = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        if self.token is None or scope["path"] != "/" or len(tokens) != 1 or not self._is_token(tokens[0]):
            return None
        response = Response(status_code=303, headers={"location": "/"})
        response.set_cookie(COOKIE, tokens[0], httponly=True, samesite="strict")
        return response

    async def _read_body(self, headers: dict[str, str], receive: Receive) -> bytes:
        """Read the whole body within the limits of size and time; stop reading when it is too large."""
        declared = headers.get("content-length", "0")
        if not declared.isdecimal() or len(declared) > 12 or int(declared) > self.limits.body:
            raise self._too_large()
        body = b""
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ApiError(499, "Client closed request")
                    body += message.get("body", b"")
                    if len(body) > self.limits.body:
                        raise self._too_large()
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            raise ApiError(408, "Request timeout", "the body did not arrive in time") from None
        if "json" in headers.get("content-type", "").lower():
            _check_json(body)
        return body

    def _too_large(self) -> ApiError:
        return ApiError(413, "Content too large", f"a request may have {self.limits.body:,} bytes")


def _check_json(body: bytes) -> None:
    """Refuse JSON that Python accepts but the standard does not: NaN, lone surrogates, numbers out of range."""
    if not body:
        return
    try:
        tree = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant, parse_float=_parse_finite)
        json.dumps(tree, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError):
        raise ApiError(400, "Invalid request", "the body is not valid JSON in UTF-8") from None


def _refuse_constant(name: str) -> float:
    raise ValueError(name)


def _parse_finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(text)
    return number


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a receive function that gives the body once, and then what the client sends: it may disconnect."""
    replayed = False

    async def receive_again() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


class SenderWithHeaders:
    """A send function that adds HEADERS to the response, and knows whether the response has begun."""

    def __init__(self, send: Send) -> None:
        self.send = send
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            present = {name for name, _ in message["headers"]}
            message["headers"] = [*message["headers"], *(pair for pair in _ENCODED_HEADERS if pair[0] not in present)]
        await self.send(message)
