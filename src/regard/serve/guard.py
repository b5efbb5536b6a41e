"""Around all routes: checks of host name, origin, access token and body before, headers and unexpected errors after."""

from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serve.activity import Activity
from regard.serve.cross_origin import CrossOriginRule
from regard.serve.errors import ApiError, as_api_error, is_libretranslate
from regard.serve.host_name import parse_host, parse_host_name
from regard.serve.limits import Limits
from regard.serve.request_body import UploadPlaces, check_framing, read_body, replay
from regard.serve.request_head import RequestHead
from regard.serve.sign_in import SignIn
from regard.serve.token_gate import TokenGate, unauthorised

PUBLIC_PATHS = ("/healthz", "/readyz", "/health", "/languages", "/frontend/settings")
"""Paths that need no token: whether the server runs, and what LibreTranslate's clients ask without a key"""
HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' data: blob:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Added to every response that does not have them"""
_CLOSE = (b"connection", b"close")
_ENCODED_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


@dataclass(frozen=True)
class Access:
    """Who may use the server."""

    hosts: frozenset[str]
    """Host names that requests may have; any other may be DNS rebinding by a foreign page"""
    token: str | None = None
    """If set, every request needs it, or the cookie of a browser that has signed in with it"""
    origins: frozenset[str] = frozenset()
    """Origins whose pages may use the server too, as `parse_origin` returns them; "*" is any"""


class Guard:
    """Middleware that refuses a request unless `Access` and `Limits` allow it, and answers unexpected errors."""

    def __init__(self, app: ASGIApp, access: Access, limits: Limits, activity: Activity) -> None:
        self.app = app
        self.activity = activity
        self.hosts = frozenset(map(parse_host_name, access.hosts)) - {None}
        self.cross_origin = CrossOriginRule(access.origins)
        self.gate = TokenGate(access.token, limits)
        self.sign_in = SignIn(self.gate)
        self.uploads = UploadPlaces(limits)
        self.limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        if scope["type"] != "http":  # there are no web sockets here
            return
        sender = SenderWithHeaders(send, self.activity)
        self.activity.running += 1
        try:
            await self._answer(scope, receive, sender)
        except Exception as error:  # the application answers errors that it expects
            response = as_api_error(error).response(scope["path"])
            if sender.started:  # too late to answer; the connection is closed
                raise
            await response(scope, receive, sender)
        finally:
            self.activity.running -= 1

    async def _answer(self, scope: Scope, receive: Receive, sender: "SenderWithHeaders") -> None:
        head = RequestHead.of(scope)
        check_framing(head)
        self._check_host(head)
        sender.added = self.cross_origin.response_headers(head)
        self.cross_origin.check(head)
        if (preflight := self.cross_origin.answer_preflight(head)) is not None:
            await preflight(scope, receive, sender)
        elif self.sign_in.handles(head):
            body = await read_body(head, receive, self.limits)
            await self.sign_in.respond(head, body)(scope, receive, sender)
        else:
            client = self._find_client(head)
            with self.uploads.take(head, is_known=client is not None):
                body = await read_body(head, receive, self.limits)
                if client is None:
                    await self.gate.check_api_key(head, body)
                scope.setdefault("state", {})["client"] = client or head.address
                if head.method == "HEAD":  # routes know only GET; the server sends no body
                    scope = {**scope, "method": "GET"}
                await self.app(scope, replay(body, receive), sender)

    def _check_host(self, head: RequestHead) -> None:
        if parse_host(head.header("host")) not in self.hosts:
            raise ApiError(421, "Misdirected request", "this server has another host name; add one with --host-name")

    def _find_client(self, head: RequestHead) -> str | None:
        """Return a name for the client; None if its token may be in the body. Refuse a request without a token."""
        client = head.address if head.path in PUBLIC_PATHS else self.gate.find_client(head)
        if client is None and not is_libretranslate(head.path):
            raise unauthorised()
        return client


class SenderWithHeaders:
    """A send function that adds headers to the response, counts it, and knows whether it has begun."""

    def __init__(self, send: Send, activity: Activity) -> None:
        self.send = send
        self.activity = activity
        self.started = False
        self.added: list[tuple[bytes, bytes]] = []
        """Headers for this response, beside HEADERS"""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            present = {name for name, _ in message["headers"]}
            missing = [pair for pair in _ENCODED_HEADERS if pair[0] not in present]
            closing = [_CLOSE] if self.activity.draining else []
            message["headers"] = [*message["headers"], *missing, *self.added, *closing]
            self.activity.responses[message["status"]] += 1
        await self.send(message)
