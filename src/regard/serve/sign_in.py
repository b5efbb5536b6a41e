"""How a browser signs in: a form for the token, which is exchanged for a cookie with the id of a session."""

import base64
import hashlib
from urllib.parse import parse_qs

from starlette.responses import HTMLResponse, Response

from regard.serve.errors import ApiError
from regard.serve.request_head import RequestHead
from regard.serve.token_gate import COOKIE, TokenGate

SIGN_OUT = "/sign-out"
SIGNED_IN = "regard_signed_in"
"""A cookie without a secret, by which the page's scripts know that there is a session to end"""
_STYLE = """
:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; }
body { max-width: 22rem; margin: 20vh auto 0; padding: 0 1rem; }
input, button { font: inherit; box-sizing: border-box; width: 100%; margin-top: 0.5rem; padding: 0.4rem; }
"""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>regard: sign in</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<main>
<h1>regard</h1>
<p role="status">{message}</p>
<form method="post">
<label>Access token <input name="token" type="password" autocomplete="current-password" required autofocus></label>
<button>Sign in</button>
</form>
</main>
</body>
</html>
"""
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; img-src data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


class SignIn:
    """Answers requests that sign in or out. The token of a request never stays in an address."""

    def __init__(self, gate: TokenGate) -> None:
        self.gate = gate

    def handles(self, head: RequestHead) -> bool:
        """Return whether the request signs in or out, or opens the page in a browser that has not signed in."""
        if self.gate.token is None:
            return False
        if head.method == "POST":
            return head.path in ("/", SIGN_OUT)
        return head.method in ("GET", "HEAD") and head.path == "/" and self._needs_token(head)

    def respond(self, head: RequestHead, body: bytes) -> Response:
        if head.path == SIGN_OUT:
            return self._sign_out(head)
        if head.method == "POST":
            return self._exchange(head, _token_in(body.decode("latin-1")))
        if token := _token_in(head.query):
            signed_in = self._exchange(head, token)
            return signed_in if signed_in.status_code == 303 else _redirect()
        return _form(401, "This server needs an access token.")

    def _needs_token(self, head: RequestHead) -> bool:
        if _token_in(head.query):
            return True
        is_browser = "text/html" in head.header("accept") and "authorization" not in head.headers
        return is_browser and self.gate.find_session(head) is None

    def _exchange(self, head: RequestHead, token: str) -> Response:
        """Start a session for the right token; otherwise show the form again."""
        try:
            self.gate.check_token(head, token)
        except ApiError as error:
            message = "This token is wrong." if error.status == 401 else "Too many wrong tokens. Please wait a minute."
            return _form(error.status, message, error.headers)
        response = _redirect()
        seconds = int(self.gate.sessions.limits.session_seconds)
        for name, value in ((COOKIE, self.gate.sessions.start()), (SIGNED_IN, "1")):
            is_secret = name == COOKIE
            response.set_cookie(name, value, seconds, httponly=is_secret, samesite="strict", secure=head.is_secure)
        return response

    def _sign_out(self, head: RequestHead) -> Response:
        if (session_id := self.gate.find_session(head)) is not None:
            self.gate.sessions.end(session_id)
        response = _redirect()
        for name in (COOKIE, SIGNED_IN):
            response.delete_cookie(name, samesite="strict", secure=head.is_secure)
        return response


def _token_in(query: str) -> str:
    return parse_qs(query).get("token", [""])[0].strip()


def _redirect() -> Response:
    return Response(status_code=303, headers={"location": "/"})


def _form(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    content = _PAGE.format(style=_STYLE, message=message)
    return HTMLResponse(content, status, {**(headers or {}), "content-security-policy": _POLICY})
