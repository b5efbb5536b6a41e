"""HTTP on a socket: requests whose length is ambiguous or malformed are refused, HEAD works, no packet is delayed."""

import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.serve.live import serving

HEAD = b"POST /translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
BODY = b'{"q": "a", "source": "src", "target": "tgt"}'
NEXT = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture(scope="module")
def server(models: dict[str, Path]) -> Iterator[str]:
    with serving({"toy": models["toy"]}) as (address, _):
        yield address


def exchange(address: str, data: bytes) -> bytes:
    """Send bytes and return everything that comes back until the server closes or is silent."""
    host, port = address.removeprefix("http://").split(":")
    received = b""
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(data)
        connection.settimeout(20)  # for the first response
        try:
            while part := connection.recv(65_536):
                received += part
                connection.settimeout(1.5)
        except TimeoutError:
            pass
    return received


CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)


@pytest.mark.parametrize(
    ("head", "body", "status"),
    [
        (b"Content-Length: %d\r\n" % len(BODY), BODY, 200),
        (b"Transfer-Encoding: chunked\r\n", CHUNKED, 200),
        (b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", CHUNKED, 400),
        (b"Transfer-Encoding: chunked\r\nContent-Length: %d\r\n" % len(CHUNKED), CHUNKED, 400),
        (b"Content-Length: 4\r\nContent-Length: %d\r\n" % len(BODY), BODY, 400),
        (b"Content-Length: 4, %d\r\n" % len(BODY), BODY, 400),
        (b"Content-Length: +%d\r\n" % len(BODY), BODY, 400),
        (b"Content-Length: 0x10\r\n", BODY, 400),
        (b"Content-Length: -1\r\n", BODY, 400),
        (b"Content-Length : %d\r\n" % len(BODY), BODY, 400),
        (b"Transfer-Encoding: gzip, chunked\r\n", CHUNKED, 400),
        (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", CHUNKED, 400),
        (b"Transfer-Encoding : chunked\r\n", CHUNKED, 400),
        (b"Transfer-Encoding: chunked\r\n", b"zz\r\n" + BODY + b"\r\n0\r\n\r\n", 400),
        (b"Transfer-Encoding: chunked\r\n", b"-5\r\n" + BODY + b"\r\n0\r\n\r\n", 400),
        (b"Transfer-Encoding: chunked\r\n", b"f" * 40 + b"\r\n" + BODY, 400),
        (b"Transfer-Encoding: chunked\r\n", b"3\r\n" + BODY + b"\r\n0\r\n\r\n", 400),
        (b"Host: evil.example\r\nContent-Length: %d\r\n" % len(BODY), BODY, 400),
    ],
)
def test_ambiguous_and_malformed_lengths(server: str, head: bytes, body: bytes, status: int) -> None:
    received = exchange(server, HEAD + head + b"\r\n" + body + NEXT)
    assert received.startswith(b"HTTP/1.1 %d " % status), received[:200]
    assert received.count(b"HTTP/1.1 ") == (2 if status == 200 else 1), "after an error the connection is closed"


def test_a_request_names_a_path_of_this_server_only(server: str) -> None:
    for target in (b"http://evil.example/healthz", b"//evil.example/healthz", b"*"):
        received = exchange(server, b"GET " + target + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        assert received.startswith((b"HTTP/1.1 404 ", b"HTTP/1.1 400 ")), target
    assert exchange(server, b"GET /healthz HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert exchange(server, b"GET /healthz HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 421 ")


def test_head_is_answered_like_get(server: str) -> None:
    with httpx.Client(base_url=server, headers={"accept-encoding": "identity"}) as client:
        for path in ("/", "/icon.svg", "/v1/models", "/languages", "/healthz", "/metrics", "/openapi.json"):
            head, get = client.head(path), client.get(path)
            assert head.status_code == get.status_code == 200 and not head.content
            assert head.headers["content-length"] == get.headers["content-length"]
            assert head.headers["content-type"] == get.headers["content-type"]
        assert client.head("/v1/translate").status_code == 405
        assert client.head("/nowhere").status_code == 404
