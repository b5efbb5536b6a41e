"""The head of a request: what is known of it before its body is read."""

from dataclasses import dataclass

from starlette.types import Scope


@dataclass(frozen=True)
class RequestHead:
    method: str
    path: str
    headers: dict[str, str]
    """By lower-case names"""
    query: str
    address: str
    """Of the client; behind a trusted proxy, the one that the proxy tells"""
    is_secure: bool
    """Whether the client uses TLS"""

    @classmethod
    def of(cls, scope: Scope) -> "RequestHead":
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        address, _ = scope.get("client") or ("", 0)
        query = scope["query_string"].decode("latin-1")
        return cls(scope["method"], scope["path"], headers, query, address, scope["scheme"] == "https")

    def header(self, name: str) -> str:
        """Return the value of a header, empty if the request does not have it."""
        return self.headers.get(name, "")
