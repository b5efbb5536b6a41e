"""`regard serve`: starting and stopping the server."""

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from regard.cli import serve
from regard.errors import UserError
from tests.cli.command import environment, failed_in_one_line, regard
from tests.serve.models import toy_models


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return toy_models(tmp_path_factory.mktemp("models"))


def test_it_answers_requests_and_stops_on_sigterm(models: dict[str, Path]) -> None:
    folders = [str(models["toy"]), f"other={models['rnn']}"]
    command = [sys.executable, "-m", "regard", "serve", *folders, "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    try:
        assert server.stdout is not None
        names, _, address = server.stdout.readline().strip().rpartition(": ")
        assert names == "toy, other" and address.startswith("http://127.0.0.1:")
        response = None
        for _ in range(200):
            try:
                response = httpx.post(f"{address}v1/translate", json={"model": "toy", "text": "a b"})
                break
            except httpx.TransportError:
                time.sleep(0.05)
        assert response is not None and response.status_code == 200
        server.send_signal(signal.SIGTERM)
        assert server.wait(15) in (0, -signal.SIGTERM)
        assert "Traceback" not in server.communicate()[1]
    finally:
        server.kill()


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
