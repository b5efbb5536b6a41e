"""Who is let in: host names, origins, tokens, sessions of browsers, wrong tokens."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from libretranslatepy import LibreTranslateAPI
from starlette.testclient import TestClient

from regard.serve.app import make_app
from regard.serve.cross_origin import parse_origin
from regard.serve.guard import Access
from regard.serve.host_name import parse_host, parse_host_name
from regard.serve.limits import Limits
from regard.serve.registry import Registry
from regard.serve.sessions import Sessions
from regard.serve.throttle import Throttle
from tests.serve.live import serving

TOKEN = "let-me-in"
BEARER = {"authorization": f"Bearer {TOKEN}"}
BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
TEXT = {"model": "toy", "text": "a"}


def guarded(
    origins: frozenset[str] = frozenset(), limits: Limits | None = None, token: str = TOKEN, **options: object
) -> TestClient:
    """A client of a server without models that needs a token"""
    access = Access(frozenset({"testserver"}), token, origins)
    return TestClient(make_app(Registry([]), access, limits), follow_redirects=False, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("LOCALHOST", "localhost"),
        ("localhost:8000", "localhost"),
        ("localhost.", "localhost"),
        ("localhost.:80", "localhost"),
        ("127.0.0.1:8000", "127.0.0.1"),
        ("[::1]", "[::1]"),
        ("[::1]:8151", "[::1]"),
        ("[0:0:0:0:0:0:0:1]:8151", "[::1]"),
        ("[::1]evil", None),
        ("[::1].evil.example", None),
        ("[::1", None),
        ("::1", None),
        ("localhost:", None),
        ("localhost:evil", None),
        ("localhost:80:90", None),
        ("localhost:99999", None),
        ("user@localhost", None),
        ("localhost/evil", None),
        ("localhost, evil", None),
        ("localhost..", None),
        (".localhost", None),
        ("[::1].", None),
        ("[1:2]", None),
        ("", None),
        (".", None),
    ],
)
def test_the_host_name_of_a_request_is_parsed_exactly(host: str, name: str | None) -> None:
    assert parse_host(host) == name


def test_host_names_given_at_the_start() -> None:
    assert parse_host_name("::1") == parse_host_name("[::1]") == "[::1]" and parse_host_name("A.Example") == "a.example"
    assert parse_host_name("http://a") is parse_host_name("a:80") is parse_host_name("a b") is None


def test_requests_of_other_hosts_are_refused() -> None:
    app = make_app(Registry([]), Access(frozenset({"localhost", "Server.Example", "::1"})))
    with TestClient(app) as client:
        for host in ("localhost", "LOCALHOST:8000", "localhost.", "server.example", "[::1]:80"):
            assert client.get("/v1/models", headers={"host": host}).status_code == 200, host
        for host in ("other", "[::1]evil", "localhost.evil", "localhost:x", ""):
            assert client.get("/v1/models", headers={"host": host}).status_code == 421, host


SIMPLE_REQUESTS = [
    {"content": '{"model": "toy", "text": "a"}', "headers": {"content-type": "text/plain"}},
    {"json": TEXT},
    {"data": {"q": "a", "source": "src", "target": "tgt"}},
    {"files": {"file": b"a"}, "data": {"source": "src"}},
    {},
]
FOREIGN = [
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "http://testserver:81"},
    {"origin": "http://testserver.evil"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site", "origin": "http://testserver"},
]


@pytest.mark.parametrize("request_options", SIMPLE_REQUESTS, ids=["text", "json", "form", "multipart", "empty"])
def test_pages_of_other_origins_cannot_post(client: TestClient, request_options: dict[str, object]) -> None:
    for path in ("/v1/translate", "/translate", "/v1/completions", "/v1/trace", "/nowhere", "/"):
        for foreign in FOREIGN:
            headers = {**request_options.get("headers", {}), **foreign}  # type: ignore[dict-item]
            response = client.post(path, **{**request_options, "headers": headers})  # type: ignore[arg-type]
            assert response.status_code == 403, (path, foreign)
            assert "access-control-allow-origin" not in response.headers


def test_own_pages_and_other_programs_can_post(client: TestClient) -> None:
    for own in ({}, {"origin": "http://testserver"}, {"origin": "https://TestServer"}, {"sec-fetch-site": "none"}):
        assert client.post("/v1/translate", json=TEXT, headers=own).status_code == 200, own
    through_proxy = {"sec-fetch-site": "same-origin", "origin": "https://regard.example"}
    assert client.post("/v1/translate", json=TEXT, headers=through_proxy).status_code == 200
    assert client.get("/v1/models", headers={"origin": "https://evil.example"}).status_code == 200


def test_origins_that_are_allowed() -> None:
    ask = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,content-type"}
    friend, stranger = {"origin": "https://friend.example"}, {"origin": "https://evil.example"}
    with guarded(frozenset({"https://friend.example"})) as client:
        preflight = client.options("/v1/translate", headers={**ask, **friend})
        assert preflight.status_code == 204 and preflight.headers["access-control-allow-origin"] == friend["origin"]
        assert "authorization" in preflight.headers["access-control-allow-headers"]
        refused = client.options("/v1/translate", headers={**ask, **stranger})
        assert refused.status_code == 403 and "access-control-allow-origin" not in refused.headers
        assert client.post("/v1/nowhere", headers={**BEARER, **stranger}).status_code == 403
        for headers, status in (({**BEARER, **friend}, 404), (friend, 401)):
            response = client.post("/v1/nowhere", headers={"sec-fetch-site": "cross-site", **headers})
            assert response.status_code == status and "origin" in response.headers["vary"]
            assert response.headers["access-control-allow-origin"] == friend["origin"]
            assert "access-control-allow-credentials" not in response.headers
        sign_in(client)
        assert client.get("/v1/models").status_code == 200
        assert client.get("/v1/models", headers=friend).status_code == 401, "a cookie is for the server's own page"
    with guarded(frozenset({"*"})) as client:
        response = client.get("/v1/models", headers={**BEARER, **stranger})
        assert response.status_code == 200 and response.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in response.headers


def test_origins_are_written_as_browsers_write_them() -> None:
    assert parse_origin("HTTPS://A.Example:443/") == "https://a.example"
    assert parse_origin("http://localhost:3000") == "http://localhost:3000" and parse_origin("*") == "*"
    assert parse_origin("http://[::1]:80") == "http://[::1]"
    for wrong in ("a.example", "null", "https://a.example/path", "https://a b", "ftp://a", "https://*.a", ""):
        assert parse_origin(wrong) is None, wrong


def sign_in(client: TestClient) -> httpx.Response:
    response = client.post("/", data={"token": TOKEN}, headers={"origin": "http://testserver"})
    assert response.status_code == 303 and response.headers["location"] == "/"
    return response


def test_a_browser_without_a_session_gets_the_form() -> None:
    with guarded() as client:
        form = client.get("/", headers=BROWSER)
        assert form.status_code == 401 and form.headers["content-type"].startswith("text/html")
        assert '<form method="post">' in form.text and "<script" not in form.text and "http" not in form.text
        policy = form.headers["content-security-policy"]
        assert "unsafe" not in policy and "form-action 'self'" in policy
        assert not re.search(r'\b(style|on\w+)="', form.text)
        assert client.get("/").headers["content-type"] == "application/problem+json"
        assert client.get("/v1/models", headers=BROWSER).headers["content-type"] == "application/problem+json"
        assert client.get("/", headers={**BROWSER, **BEARER}).status_code == 200
        assert client.head("/", headers=BROWSER).status_code == 401


def test_a_session_is_a_signed_id_that_ends() -> None:
    with guarded() as client:
        cookie = sign_in(client).headers["set-cookie"]
        assert TOKEN not in cookie and "HttpOnly" in cookie and "samesite=strict" in cookie.lower()
        assert "Secure" not in cookie and "Max-Age=43200" in cookie
        assert client.get("/", headers=BROWSER).status_code == client.get("/v1/models").status_code == 200
        kept = client.cookies["regard_session"]
        assert client.post("/sign-out", headers={"origin": "http://evil.example"}).status_code == 403
        assert client.post("/sign-out").status_code == 303 and "regard_session" not in client.cookies
        assert client.get("/v1/models", headers={"cookie": f"regard_session={kept}"}).status_code == 401
        for wrong in (f"regard_session={TOKEN}", "regard_session=", "regard_session", f"regard_token={TOKEN}", ";;=,"):
            assert client.get("/v1/models", headers={"cookie": wrong}).status_code == 401
    with guarded(base_url="https://testserver") as client:
        assert "Secure" in client.get(f"/?token={TOKEN}").headers["set-cookie"]


def test_a_session_counts_on_every_replica_with_the_same_token() -> None:
    with guarded() as one, guarded() as two, guarded(token="another") as other:
        sign_in(one)
        cookie = {"cookie": f"regard_session={one.cookies['regard_session']}"}
        assert two.get("/v1/models", headers=cookie).status_code == 200
        assert other.get("/v1/models", headers=cookie).status_code == 401, "a new token ends all sessions"


def test_the_token_does_not_stay_in_the_address() -> None:
    with guarded() as client:
        for token, signed_in in (("wrong", False), (TOKEN, True)):
            response = client.get("/", params={"token": token}, headers=BROWSER)
            assert response.status_code == 303 and response.headers["location"] == "/"
            assert ("set-cookie" in response.headers) == signed_in
        wrong = client.post("/", data={"token": "wrong"})
        assert wrong.status_code == 401 and "This token is wrong" in wrong.text


def test_sessions_cannot_be_forged_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = Sessions(TOKEN, Limits(ended_sessions=2))
    first, second, third = (sessions.start() for _ in range(3))
    assert len({first, second, third}) == 3 and all(map(sessions.is_valid, (first, second, third)))
    expiry, nonce, signature = first.split(".")
    later = f"{int(expiry) + 1}.{nonce}.{signature}"
    for forged in (
        later,
        f"{expiry}.{nonce}.",
        f"{expiry}.{nonce}",
        f"{first}=",
        f"{first}.",
        "..",
        "",
        "é",
        signature,
    ):
        assert not sessions.is_valid(forged), forged
    sessions.end(first)
    sessions.end(second)
    assert not sessions.is_valid(first) and not sessions.is_valid(second) and sessions.is_valid(third)
    assert Sessions(TOKEN, Limits()).is_valid(first), "another process does not know that it was ended"
    sessions.end(third)
    assert len(sessions._ended) == 2, "memory does not grow"
    now = time.time()
    monkeypatch.setattr("regard.serve.sessions.time.time", lambda: now + 43_201)
    assert not sessions.is_valid(third) and not Sessions(TOKEN, Limits()).is_valid(first)


def test_wrong_tokens_are_throttled() -> None:
    with guarded(limits=Limits(wrong_tokens=3)) as client:
        sign_in(client)

        def status(token: str, path: str = "/v1/models") -> int:
            return client.get(path, headers={"authorization": f"Bearer {token}", "cookie": ""}).status_code

        assert [status("same") for _ in range(20)] == [401] * 20, "a client with one wrong token makes no guesses"
        assert [status(token) for token in ("a", "b", "c", TOKEN)] == [401, 401, 429, 429]
        refused = client.get("/v1/models", headers={"authorization": "Bearer d"})
        assert refused.status_code == 429 and 1 <= int(refused.headers["retry-after"]) <= 60
        form = client.post("/", data={"token": "d"})
        assert form.status_code == 429 and form.headers["retry-after"] and "<form" in form.text
        assert status("d", "/healthz") == 200
        assert client.get("/v1/models").status_code == 200, "a browser that is signed in is not affected"
        others = TestClient(client.app, client=("192.0.2.7", 5))
        assert others.get("/v1/models", headers=BEARER).status_code == 200, "nor are other addresses"


def test_the_waiting_time_grows_and_memory_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("regard.serve.throttle.time.monotonic", lambda: now)
    throttle = Throttle(Limits(wrong_tokens=2, throttle_seconds=5.0, throttled_addresses=3))
    waits = []
    for guess in range(6):
        throttle.add_wrong("192.0.2.1", str(guess))
        waits.append(throttle.seconds_left("192.0.2.1"))
    assert waits == [0.0, 1.0, 2.0, 4.0, 5.0, 5.0]
    now += 3.0
    assert throttle.seconds_left("192.0.2.1") == 2.0 and throttle.seconds_left("192.0.2.2") == 0.0
    now += 1000.0
    throttle.add_wrong("192.0.2.1", "x")
    assert throttle.seconds_left("192.0.2.1") == 0.0, "it was long ago"
    for guess in range(3):
        throttle.add_wrong(f"2001:db8::{guess}", str(guess))
    assert throttle.seconds_left("2001:db8::ffff") > 0, "one network of IPv6 is one client"
    for i in range(100):
        throttle.add_wrong(f"198.51.100.{i}", "x")
    assert len(throttle) == 3


@pytest.fixture(scope="module")
def keyed(models: dict[str, Path]) -> Iterator[str]:
    with serving({"toy": models["toy"]}, token=TOKEN) as (address, _):
        yield address


def test_the_api_key_of_libretranslate_is_the_token(keyed: str) -> None:
    fields = {"q": "a b", "source": "src", "target": "tgt"}  # LibreTranslate answers 403 where others answer 401
    with httpx.Client(base_url=keyed) as client:
        for key, status in ((TOKEN, 200), ("wrong", 403), ("", 403)):
            with_key = {**fields, "api_key": key}
            assert client.post("/translate", json=with_key).status_code == status
            assert client.post("/translate", data=with_key).status_code == status
            assert client.post("/translate", params={"api_key": key}, data=fields).status_code == status
            multipart = {name: (None, value) for name, value in with_key.items()}
            for boundary in ("lower", "----WebKitFormBoundaryAbC"):
                headers = {"content-type": f"multipart/form-data; boundary={boundary}"}
                assert client.post("/detect", files=multipart, headers=headers).status_code == status
            assert client.get("/spec", params={"api_key": key}).status_code == status
            assert client.get("/languages", params={"api_key": key}).status_code == 200  # clients send no key
        assert client.post("/translate", json=fields).status_code == 403
        assert client.post("/translate", json=[1]).status_code == 403
        assert client.post("/v1/translate", json={**TEXT, "api_key": TOKEN}).status_code == 401
        assert client.post("/v1/translate", params={"api_key": TOKEN}, json=TEXT).status_code == 401
        wrong = client.post("/translate", json={**fields, "api_key": "wrong"})
        assert wrong.json()["error"] == "Invalid API key"


def test_libretranslate_s_client_with_a_key(keyed: str) -> None:
    client = LibreTranslateAPI(keyed, api_key=TOKEN)
    assert client.translate("a b", "src", "tgt") and client.languages() and client.detect("a b")
