"""Under load: results do not depend on the batch, overload is refused, clients that leave stop their jobs."""

import asyncio
import random
import socket
import time
from pathlib import Path

import httpx
import pytest
from safetensors.numpy import load as load_tensors

import regard as library
from regard.serve import header_timeout
from regard.serve.batch_queue import JobQueue
from regard.serve.limits import Limits
from tests.serve.live import serving
from tests.serve.models import LETTERS


def random_sentences(n: int) -> list[str]:
    rng = random.Random(1)
    return [" ".join(rng.choices(LETTERS.split(), k=rng.randint(1, 12))) for _ in range(n)]


def test_translations_do_not_depend_on_the_batch(models: dict[str, Path]) -> None:
    texts = random_sentences(150)
    translator = library.load(models["toy"])
    alone = [translator.translate([text], beam=3)[0].text for text in texts]  # type: ignore[union-attr]

    async def translate_all(address: str) -> list[str]:
        at_once = asyncio.Semaphore(32)

        async def translate(client: httpx.AsyncClient, text: str) -> str:
            async with at_once:
                response = await client.post(
                    "/v1/translate", json={"model": "toy", "text": text, "beam": 3}, timeout=60
                )
                assert response.status_code == 200, response.text
                return str(response.json()["text"])

        async with httpx.AsyncClient(base_url=address) as client:
            return list(await asyncio.gather(*(translate(client, text) for text in texts)))

    with serving({"toy": models["toy"]}, Limits(queue_seconds=50.0)) as (address, app):
        assert asyncio.run(translate_all(address)) == alone
        assert app.state.dispatcher.queues["translate"].batches < len(texts), "some were decoded together"


def test_responses_on_an_open_connection_do_not_wait_for_acknowledgements(models: dict[str, Path]) -> None:
    with serving({"toy": models["toy"]}) as (address, _), httpx.Client(base_url=address) as client:
        client.get("/healthz")
        seconds = min(client.get("/healthz").elapsed.total_seconds() for _ in range(20))
    assert seconds < 0.03, "without TCP_NODELAY it is 0.04"


def test_overload_is_refused_and_leaves_no_backlog(models: dict[str, Path]) -> None:
    limits = Limits(queue=8, queue_seconds=1.0, decode_seconds=10.0)

    async def overload(address: str, seconds: float) -> list[tuple[int, float]]:
        until, responses = time.monotonic() + seconds, list[tuple[int, float]]()

        async def send_many(client: httpx.AsyncClient) -> None:
            while time.monotonic() < until:
                start = time.monotonic()
                response = await client.post(
                    "/v1/translate", json={"model": "toy", "text": LETTERS, "beam": 16}, timeout=30
                )
                responses.append((response.status_code, time.monotonic() - start))
                if response.status_code == 429:
                    assert response.headers["retry-after"]
                    await asyncio.sleep(0.01)

        async with httpx.AsyncClient(base_url=address, limits=httpx.Limits(max_connections=100)) as client:
            await asyncio.gather(*(send_many(client) for _ in range(40)))
            start = time.monotonic()
            after = await client.post("/v1/translate", json={"model": "toy", "text": "a"}, timeout=10)
            assert after.status_code == 200 and time.monotonic() - start < 2.0
        return responses

    with serving({"toy": models["toy"]}, limits) as (address, app):
        responses = asyncio.run(overload(address, 3.0))
        queue, until = app.state.dispatcher.queues["translate"], time.monotonic() + 5.0
        while queue.depth and time.monotonic() < until:  # an answer is sent before its job has left the queue
            time.sleep(0.01)
        assert queue.depth == 0
    codes = {code for code, _ in responses}
    assert codes == {200, 429}
    times = sorted(t for code, t in responses if code == 200)
    assert times[int(0.99 * (len(times) - 1))] <= 2 * (limits.queue_seconds + limits.decode_seconds)


def test_clients_that_leave_stop_their_jobs(models: dict[str, Path]) -> None:
    async def leave(address: str, n: int) -> None:
        async def send_and_leave(client: httpx.AsyncClient) -> None:
            with pytest.raises((httpx.ReadTimeout, httpx.ReadError, httpx.RemoteProtocolError)):
                body = {"model": "text", "prompt": "a b c", "max_tokens": 512, "temperature": 2.0}
                await client.post("/v1/completions", json=body, timeout=httpx.Timeout(5, read=0.001))

        async with httpx.AsyncClient(base_url=address, limits=httpx.Limits(max_connections=20)) as client:
            for _ in range(n // 20):
                await asyncio.gather(*(send_and_leave(client) for _ in range(20)), return_exceptions=True)

    with serving({"text": models["text"]}, Limits(queue=1000)) as (address, app):
        queue: JobQueue = app.state.dispatcher.queues["generate"]
        asyncio.run(leave(address, 500))
        until = time.monotonic() + 20
        while queue.depth and time.monotonic() < until:
            time.sleep(0.05)
        assert queue.depth == 0
        assert queue.given_up > 0, "jobs that nobody waits for were given up"
        assert httpx.get(f"{address}/healthz").status_code == 200


def test_connections_without_a_complete_request_head_are_closed(
    models: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(header_timeout, "HEAD_SECONDS", 0.3)
    with serving({"toy": models["toy"]}) as (address, _):
        host, port = address.removeprefix("http://").split(":")
        slow = [socket.create_connection((host, int(port))) for _ in range(50)]
        for connection in slow:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127")
        assert httpx.get(f"{address}/healthz").status_code == 200
        for connection in slow:
            connection.settimeout(3)
            assert connection.recv(10) == b""
            connection.close()
        with httpx.Client() as client:  # a connection with complete requests stays open
            for _ in range(3):
                assert client.get(f"{address}/healthz").status_code == 200
                time.sleep(0.4)


def test_a_class_of_a_hundred_traces_at_once(models: dict[str, Path]) -> None:
    """Each tab sees its own trace, and what it reads of it."""
    texts = random_sentences(100)

    async def trace(client: httpx.AsyncClient, number: int) -> bool:
        body = {"model": "toy", "text": texts[number], "max_len": 4, "beam": 2, "tab": f"tab-{number}"}
        response = await client.post("/v1/trace", json=body)
        assert response.status_code == 200, response.text
        result = response.json()
        weights = await client.get(f"/v1/trace/{result['id']}/tensors", params={"names": "cross.weights"})
        assert weights.status_code == 200, weights.text
        shape = (2, 4, len(result["target"]), len(result["source"]))
        source = " ".join(token["text"].strip("▁") for token in result["source"][:-1])
        return source == texts[number] and load_tensors(weights.content)["cross.weights"].shape == shape

    async def trace_all(address: str) -> list[bool]:
        limits = httpx.Limits(max_connections=100)
        async with httpx.AsyncClient(base_url=address, timeout=60, limits=limits) as client:
            return list(await asyncio.gather(*(trace(client, number) for number in range(100))))

    with serving({"toy": models["toy"]}) as (address, app):
        assert all(asyncio.run(trace_all(address)))
        assert len(app.state.traces) == 100
