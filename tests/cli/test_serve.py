"""`regard serve`: starting and stopping the server."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import httpx
import pytest

from regard.cli import serve
from regard.errors import UserError
from tests.cli.command import environment, failed_in_one_line, regard
from tests.serve.models import toy_models


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return toy_models(tmp_path_factory.mktemp("models"))


@contextmanager
def serving(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """Run `regard serve` in a process of its own; yield it, the names of its models and its address."""
    command = [sys.executable, "-m", "regard", "serve", *map(str, arguments), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    try:
        assert server.stdout is not None
        names, _, address = server.stdout.readline().strip().rpartition(": ")
        yield server, names, address
    finally:
        server.kill()
        server.communicate()


def test_it_answers_requests_and_stops_on_sigint(models: dict[str, Path]) -> None:
    folders = [models["toy"], f"other={models['rnn']}", models["text"]]
    with serving(*folders, "--drain-delay", 100) as (server, names, address):
        assert names == "toy, other, text" and address.startswith("http://127.0.0.1:")
        assert post(f"{address}v1/translate", json=TEXT).status_code == 200
        assert 'regard_texts_total{queue="generate"} 1' in get(f"{address}metrics").text, "it was warmed up"
        server.send_signal(signal.SIGINT)
        assert server.wait(50) == 0, "there is no delay when a user stops it"
        assert server.communicate() == ("", "")


def test_sigterm_finishes_requests_and_accepts_others_for_a_while(models: dict[str, Path]) -> None:
    with serving(models["toy"], "--drain-delay", 4) as (server, _, address), httpx.Client(timeout=60) as browser:
        assert "connection" not in browser.get(f"{address}healthz").headers
        server.send_signal(signal.SIGTERM)
        ready = wait_until(lambda: (response := get(f"{address}readyz")).status_code == 503 and response)
        assert ready and ready.json() == {"status": "draining"}
        kept = browser.get(f"{address}healthz")  # on the connection that is open
        assert kept.status_code == 200 and kept.headers["connection"] == "close"
        assert post(f"{address}v1/translate", json=TEXT).status_code == 200, "requests are accepted during the delay"
        with begun_request(address) as finish:
            wait_until(lambda: refuses(address))
            assert server.poll() is None
            assert finish().startswith(b"HTTP/1.1 200 OK\r\n"), "a request that had begun is finished"
        assert server.wait(50) == 0 and server.communicate() == ("", "")


def test_requests_that_take_too_long_are_refused_and_a_second_signal_ends_at_once(models: dict[str, Path]) -> None:
    long = {"model": "text", "prompt": "a b", "max_tokens": 512, "temperature": 2.0, "n": 16}
    with (
        serving(models["text"], "--drain-delay", 0, "--drain-seconds", 0.3) as (first, _, address),
        serving(models["text"], "--drain-delay", 100) as (second, _, other),
        ThreadPoolExecutor() as pool,
    ):
        running = [pool.submit(post, f"{each}v1/completions", json=long) for each in (address, other)]
        for each in (address, other):
            wait_until(lambda each=each: 'regard_queue_running{queue="generate"} 1' in get(f"{each}metrics").text)
        first.send_signal(signal.SIGTERM)
        response = running[0].result()
        assert response.status_code == 503 and response.headers["retry-after"] == "1"
        assert first.wait(50) == 0 and first.communicate() == ("", "")
        second.send_signal(signal.SIGTERM)
        wait_until(lambda: get(f"{other}readyz").status_code == 503)
        second.send_signal(signal.SIGTERM)
        assert second.wait(50) == 128 + signal.SIGTERM
        with pytest.raises(httpx.TransportError):
            running[1].result()


TEXT = {"model": "toy", "text": "a b"}
get, post = partial(httpx.get, timeout=60), partial(httpx.post, timeout=60)


@contextmanager
def begun_request(address: str) -> Iterator[Callable[[], bytes]]:
    """Send a part of a request; yield a function that sends the rest and returns the response."""
    host, port = address.removeprefix("http://").strip("/").split(":")
    body = json.dumps(TEXT).encode()
    head = f"POST /v1/translate HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body[:5])

        def finish() -> bytes:
            connection.sendall(body[5:])
            return b"".join(iter(lambda: connection.recv(65_536), b""))

        yield finish


T = TypeVar("T")


def wait_until(condition: Callable[[], T]) -> T:
    """Return the first true value of a function."""
    until = time.monotonic() + 60
    while not (value := condition()):
        assert time.monotonic() < until
        time.sleep(0.02)
    return value


def refuses(address: str) -> bool:
    """Return whether the server does not accept connections any more."""
    try:
        get(f"{address}readyz")
    except httpx.ConnectError:
        return True
    except httpx.TransportError:  # closed at this moment
        return False
    return False


def test_errors_are_one_line(models: dict[str, Path], tmp_path: Path) -> None:
    toy = models["toy"]
    cases = {
        "give --token": ["serve", toy, "--host", "0.0.0.0"],
        "--host-name NAME": ["serve", toy, "--host", "0.0.0.0", "--token", "secret"],
        "no model found": ["serve", tmp_path],
        "two models are named 'toy'": ["serve", toy, toy],
        "cannot be written": ["serve", toy, "--suggestions", tmp_path],
        "cannot name a model": ["serve", f"a b={toy}"],
    }
    for message, arguments in cases.items():
        assert message in failed_in_one_line(regard(*arguments))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert "choose another" in failed_in_one_line(regard("serve", toy, "--port", port))


def test_tokens_are_checked() -> None:
    assert serve._check_token(None) is None and serve._check_token("a1-_/+=") == "a1-_/+="
    for wrong in ("", " ", "a b", "a\n", "clé"):
        with pytest.raises(UserError, match="--token"):
            serve._check_token(wrong)


def test_names_and_origins_are_checked() -> None:
    for address in ("0.0.0.0", "::", "::ffff:0.0.0.0"):
        with pytest.raises(UserError, match="--host-name NAME"):
            serve._access((address, 80), address, (), (), "secret")
        assert serve._access((address, 80), address, ["a.example"], (), "secret").token == "secret"
    for names, origins in ((["http://a.example"], []), (["a.example:80"], []), ([], ["a.example"]), ([], ["null"])):
        with pytest.raises(UserError, match="give a"):
            serve._access(("127.0.0.1", 80), "127.0.0.1", names, origins, None)
    access = serve._access(("127.0.0.1", 80), "127.0.0.1", ["a.example"], ["HTTPS://B.Example:443"], None)
    assert access.hosts == {"127.0.0.1", "localhost", "::1", "a.example"} and access.origins == {"https://b.example"}
    assert serve._parse_proxy("172.16.0.0/12") == "172.16.0.0/12" and serve._parse_proxy("::1") == "::1"
    for wrong in ("proxy.example", "172.16.0.1/12", "*", ""):
        with pytest.raises(UserError, match="give an address"):
            serve._parse_proxy(wrong)
    with pytest.raises(UserError, match="no such address"):
        serve._resolve("no host", 80)


def test_addresses_of_ipv6_have_brackets() -> None:
    assert serve._url("::1", 8151) == "http://[::1]:8151/" and serve._url("localhost", 80) == "http://localhost:80/"
