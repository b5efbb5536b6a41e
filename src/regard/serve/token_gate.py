"""Lets requests in that have the server's token, or the cookie of a browser that has signed in with it."""

import math
import secrets

from starlette.requests import cookie_parser

from regard.serve.api_key import find_api_key
from regard.serve.cross_origin import is_same_origin
from regard.serve.errors import ApiError
from regard.serve.limits import Limits
from regard.serve.request_head import RequestHead
from regard.serve.sessions import Sessions
from regard.serve.throttle import Throttle

COOKIE = "regard_session"


class TokenGate:
    def __init__(self, token: str | None, limits: Limits) -> None:
        """Without a token, everybody is let in."""
        self.token = token
        self.sessions = Sessions(token or secrets.token_urlsafe(), limits)
        self.throttle = Throttle(limits)

    def find_client(self, head: RequestHead) -> str | None:
        """Return a name for the client: its session or address. None if the head has neither token nor session."""
        if self.token is None:
            return head.address
        scheme, _, token = head.header("authorization").partition(" ")
        if scheme.lower() == "bearer":
            self.check_token(head, token.strip())
            return head.address
        return self.find_session(head)

    def find_session(self, head: RequestHead) -> str | None:
        """Return the id of the browser's session. A page of another origin cannot use it."""
        session_id = cookie_parser(head.header("cookie")).get(COOKIE, "")
        return session_id if is_same_origin(head) and self.sessions.is_valid(session_id) else None

    def check_token(self, head: RequestHead, token: str, detail: str = "the token is wrong") -> None:
        """Refuse a wrong token, and any token of an address that has tried too many."""
        if (seconds := self.throttle.seconds_left(head.address)) > 0:
            headers = {"retry-after": str(math.ceil(seconds))}
            raise ApiError(429, "Too many requests", "too many wrong tokens; try again later", headers)
        if not secrets.compare_digest(token.encode(), (self.token or "").encode()):
            self.throttle.add_wrong(head.address, token)
            raise unauthorised(detail)

    async def check_api_key(self, head: RequestHead, body: bytes) -> None:
        """Refuse a request to LibreTranslate's API without the token as its `api_key`."""
        if not (key := await find_api_key(head, body)):
            raise unauthorised("send the server's token as api_key, or as a bearer token")
        self.check_token(head, key, "Invalid API key")


def unauthorised(detail: str = "send the server's token as a bearer token") -> ApiError:
    return ApiError(401, "Unauthorised", detail, {"www-authenticate": "Bearer"})
