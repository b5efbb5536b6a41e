"""Requests that a browser sends for pages of other origins: refused, unless the origin is allowed (CORS)."""

import re
from dataclasses import dataclass

from starlette.responses import Response

from regard.serve.errors import ApiError
from regard.serve.request_head import RequestHead

ANY_ORIGIN = "*"
_ORIGIN = re.compile(r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?P<port>:[0-9]{1,5})?", re.ASCII)
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")  # these change nothing, and the browser hides the response from the page
_PREFLIGHT_HEADERS = {
    "access-control-allow-methods": "GET, HEAD, POST",
    "access-control-allow-headers": "authorization, *",  # the star does not include it
    "access-control-max-age": "7200",
}


def parse_origin(text: str) -> str | None:
    """Return an origin as browsers write it: scheme, host and port, if it is not the default; None if it is none."""
    if text == ANY_ORIGIN:
        return text
    if (match := _ORIGIN.fullmatch(text.lower().removesuffix("/"))) is None:
        return None
    scheme, host, port = match["scheme"], match["host"], match["port"] or ""
    return f"{scheme}://{host}" + ("" if port == _DEFAULT_PORTS[scheme] else port)


def is_same_origin(head: RequestHead) -> bool:
    """Return whether no page of another origin sent the request. Programs that are not browsers count as the same."""
    if site := head.header("sec-fetch-site"):
        return site in ("same-origin", "none")
    if not (origin := head.header("origin")):
        return True
    # The scheme is left out of the comparison: a proxy may have received the request by https.
    return origin.lower().partition("://")[2] == head.header("host").lower()


@dataclass(frozen=True)
class CrossOriginRule:
    allowed: frozenset[str]
    """Origins as `parse_origin` returns them. Their requests need the token: cookies do not count (see TokenGate)"""

    def check(self, head: RequestHead) -> None:
        """Refuse a request that may change something for a page of another origin."""
        if head.method not in _SAFE_METHODS and not is_same_origin(head) and not self._allows(head):
            raise _refusal()

    def answer_preflight(self, head: RequestHead) -> Response | None:
        """Answer the question of a browser whether it may send a request for another origin; None if it is not one."""
        if head.method != "OPTIONS" or "access-control-request-method" not in head.headers:
            return None
        if not self._allows(head):
            raise _refusal()
        return Response(status_code=204, headers=_PREFLIGHT_HEADERS)

    def response_headers(self, head: RequestHead) -> list[tuple[bytes, bytes]]:
        """Return the headers that let pages of allowed origins read the response."""
        if not self._allows(head):
            return []
        exposed = (b"access-control-expose-headers", b"retry-after")
        if ANY_ORIGIN in self.allowed:
            return [(b"access-control-allow-origin", b"*"), exposed]
        origin = head.header("origin").lower().encode("latin-1")
        return [(b"access-control-allow-origin", origin), (b"vary", b"origin"), exposed]

    def _allows(self, head: RequestHead) -> bool:
        return bool(self.allowed) and (ANY_ORIGIN in self.allowed or head.header("origin").lower() in self.allowed)


def _refusal() -> ApiError:
    return ApiError(403, "Forbidden", "requests from pages of other origins are refused; --cors allows an origin")
