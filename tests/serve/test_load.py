"""Under load: neighbours change nothing, overload is refused, whoever leaves stops the work."""

import asyncio
import random
import socket
import time
from pathlib import Path

import httpx
import pytest

import regard as library
from regard.serve import header_timeout
from regard.serve.batch_queue import JobQueue
from regard.serve.limits import Limits
from tests.serve.live import serving
from tests.serve.models import LETTERS, toy_models


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return toy_models(tmp_path_factory.mktemp("models"))


def sentences(n: int) -> list[str]:
    draw = random.Random(1)
    return [" ".join(draw.choices(LETTERS.split(), k=draw.randint(1, 12))) for _ in range(n)]


def test_answers_do_not_depend_on_neighbours(models: dict[str, Path]) -> None:
    texts = sentences(300)
    translator = library.load(models["toy"])
    alone = [translator.translate([text], beam=3)[0].text for text in texts]  # type: ignore[union-attr]

    async def ask_all(address: str) -> list[str]:
        gate = asyncio.Semaphore(32)

        async def ask(client: httpx.AsyncClient, text: str) -> str:
            async with gate:
                answer = await client.post("/v1/translate", json={"model": "toy", "text": text, "beam": 3}, timeout=60)
                return str(answer.json()["text"])

        async with httpx.AsyncClient(base_url=address) as client:
            return list(await asyncio.gather(*(ask(client, text) for text in texts)))

    with serving({"toy": models["toy"]}) as (address, app):
        assert asyncio.run(ask_all(address)) == alone
        assert app.state.dispatcher.queue.batches < len(texts), "some were decoded together"


def test_overload_is_refused_and_over_at_once(models: dict[str, Path]) -> None:
    limits = Limits(queue=8, queue_seconds=1.0, decode_seconds=2.0)

    async def storm(address: str, seconds: float) -> list[tuple[int, float]]:
        until, seen = time.monotonic() + seconds, list[tuple[int, float]]()

        async def client_(client: httpx.AsyncClient) -> None:
            while time.monotonic() < until:
                start = time.monotonic()
                answer = await client.post(
                    "/v1/translate", json={"model": "toy", "text": LETTERS, "beam": 16}, timeout=30
                )
                seen.append((answer.status_code, time.monotonic() - start))
                if answer.status_code == 429:
                    assert answer.headers["retry-after"]
                    await asyncio.sleep(0.01)

        async with httpx.AsyncClient(base_url=address, limits=httpx.Limits(max_connections=100)) as client:
            await asyncio.gather(*(client_(client) for _ in range(40)))
            start = time.monotonic()
            after = await client.post("/v1/translate", json={"model": "toy", "text": "a"}, timeout=10)
            assert after.status_code == 200 and time.monotonic() - start < 2.0
        return seen

    with serving({"toy": models["toy"]}, limits) as (address, app):
        seen = asyncio.run(storm(address, 3.0))
        assert app.state.dispatcher.queue.depth == 0
    codes = {code for code, _ in seen}
    assert codes <= {200, 429, 504} and {200, 429} <= codes
    times = sorted(t for code, t in seen if code == 200)
    assert times[int(0.99 * (len(times) - 1))] <= 2 * (limits.queue_seconds + limits.decode_seconds)


def test_clients_that_leave_take_their_work_with_them(models: dict[str, Path]) -> None:
    async def leave(address: str, n: int) -> None:
        async def one(client: httpx.AsyncClient) -> None:
            with pytest.raises((httpx.ReadTimeout, httpx.ReadError, httpx.RemoteProtocolError)):
                body = {"model": "text", "prompt": "a b c", "max_tokens": 512, "temperature": 2.0}
                await client.post("/v1/completions", json=body, timeout=httpx.Timeout(5, read=0.001))

        async with httpx.AsyncClient(base_url=address, limits=httpx.Limits(max_connections=20)) as client:
            for _ in range(n // 20):
                await asyncio.gather(*(one(client) for _ in range(20)), return_exceptions=True)

    with serving({"text": models["text"]}, Limits(queue=1000)) as (address, app):
        queue: JobQueue = app.state.dispatcher.queue
        asyncio.run(leave(address, 500))
        until = time.monotonic() + 20
        while queue.depth and time.monotonic() < until:
            time.sleep(0.05)
        assert queue.depth == 0
        assert queue.given_up > 0, "work was given up, and not done for nobody"
        assert httpx.get(f"{address}/healthz").status_code == 200


def test_a_head_that_never_ends_ends_the_connection(models: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(header_timeout, "HEAD_SECONDS", 0.3)
    with serving({"toy": models["toy"]}) as (address, _):
        host, port = address.removeprefix("http://").split(":")
        slow = [socket.create_connection((host, int(port))) for _ in range(50)]
        for each in slow:
            each.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127")
        assert httpx.get(f"{address}/healthz").status_code == 200
        for each in slow:
            each.settimeout(3)
            assert each.recv(10) == b""
            each.close()
        with httpx.Client() as client:  # a connection that is used is kept
            for _ in range(3):
                assert client.get(f"{address}/healthz").status_code == 200
                time.sleep(0.4)
