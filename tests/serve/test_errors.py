"""Errors have the format of each API; of an internal error, the client gets an id, the log the id and the traceback."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from regard.pipelines.generator import GeneratedPiece, Generator
from regard.pipelines.translator import Translator
from regard.serve.app import make_app
from regard.serve.batch_queue import FunctionJob, QueuedJob
from regard.serve.guard import Access
from regard.serve.limits import Limits
from regard.serve.registry import Registry
from regard.serve.schemas import v1_responses
from tests.serve.conftest import make_client


def fail(*arguments: object, **options: object) -> None:
    raise RuntimeError("secret")


def request_id(detail: str) -> str:
    assert detail.startswith("internal error") and "secret" not in detail
    return detail.split()[-1]


def openai_error(body: dict[str, Any]) -> tuple[str, str | None, str | None]:
    """Type, parameter and code of an error as OpenAI's clients read it"""
    assert set(body) == {"error"} and set(body["error"]) == {"message", "type", "param", "code"}
    assert body["error"]["message"]
    return body["error"]["type"], body["error"]["param"], body["error"]["code"]


@pytest.mark.parametrize(
    ("path", "body", "status", "param", "code"),
    [
        ("/v1/completions", {"model": "none", "prompt": "a"}, 404, "model", "model_not_found"),
        ("/v1/completions", {"prompt": "a"}, 400, "model", "missing_required_parameter"),
        ("/v1/completions", {"model": "toy", "prompt": "a", "top_p": 2}, 400, "top_p", "invalid_value"),
        ("/v1/completions", {"model": "toy", "prompt": "a " * 900}, 400, None, "context_length_exceeded"),
        ("/v1/completions", {"model": "toy", "prompt": "a" * 300_000}, 413, None, None),
        ("/v1/completions", [], 400, None, "invalid_value"),
        ("/v1/responses", {"model": "toy", "input": "a"}, 404, None, "unknown_url"),
    ],
)
def test_errors_of_openai_s_routes(
    client: TestClient, path: str, body: object, status: int, param: str | None, code: str | None
) -> None:
    response = client.post(path, json=body)
    assert response.status_code == status and response.headers["content-type"] == "application/json"
    assert openai_error(response.json()) == ("invalid_request_error", param, code)


@pytest.mark.parametrize("path", ["/translate", "/suggest", "/v1/chat/completions", "/v1/translate"])
def test_json_that_is_nested_deeply_is_refused(client: TestClient, path: str) -> None:
    for depth in (63, 64, 65, 900, 950, 970, 100_000):
        content = '{"q": ' + "[" * depth + "1" + "]" * depth + "}"
        response = client.post(path, content=content, headers={"content-type": "application/json"})
        assert response.status_code in (400, 403, 422)
        if depth < 900:
            assert ("inside each other" in response.text) is (depth >= 64), "one level is the object itself"


def test_errors_of_the_guard_and_the_queue(models: dict[str, Path]) -> None:
    chat = {"model": "toy", "messages": [{"role": "user", "content": "a b"}]}
    with make_client({"toy": models["toy"], "text": models["text"]}, Limits(queue=1)) as client:
        for queue in client.app.state.dispatcher.queues.values():  # type: ignore[attr-defined]
            queue.batch = [QueuedJob(FunctionJob(lambda queued: None, "translate"))]  # as if it were busy
        for options in ({}, {"stream": True}, {"model": "text"}, {"model": "text", "stream": True}):
            busy = client.post("/v1/chat/completions", json={**chat, **options})
            assert busy.status_code == 429 and busy.headers["retry-after"] == "1"
            assert openai_error(busy.json()) == ("rate_limit_error", None, "rate_limit_exceeded")
        libre = client.post("/translate", json={"q": "a", "source": "src", "target": "tgt"})
        assert libre.status_code == 429 and libre.json() == {"error": "the server is busy; try again"}
        assert openai_error(client.get("/v1/completions").json())[2] == "method_not_supported"
        assert client.get("/v1/tokenize").json()["title"] == "Method not allowed"
    app = make_app(Registry([]), Access(frozenset({"testserver"}), token="let-me-in"))
    with TestClient(app) as client:
        refused = client.post("/v1/chat/completions", json=chat)
        assert refused.status_code == 401 and openai_error(refused.json())[2] == "invalid_api_key"
        assert client.post("/translate", json={}).status_code == 403
        assert set(client.post("/translate", json={}).json()) == {"error"}
        shared = client.get("/v1/models").json()
        assert shared["detail"] == shared["error"]["message"] and shared["error"]["code"] == "invalid_api_key"


def test_an_error_in_a_job(
    models: dict[str, Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Translator, "translate", fail)
    with caplog.at_level(logging.ERROR), make_client({"toy": models["toy"]}) as client:
        response = client.post("/v1/translate", json={"model": "toy", "text": "a"})
        assert response.status_code == 500 and response.headers["content-type"] == "application/problem+json"
        assert response.headers["x-content-type-options"] == "nosniff"
        number = request_id(response.json()["detail"])
        assert number in caplog.text and "RuntimeError: secret" in caplog.text
        assert client.get("/healthz").status_code == 200


def test_an_error_in_a_streamed_job(
    models: dict[str, Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Translator, "translate", fail)
    with caplog.at_level(logging.ERROR), make_client({"toy": models["toy"]}) as client:
        streamed = client.post("/v1/translate", json={"model": "toy", "text": "a", "stream": True}).text
        kind, data = streamed.strip().split("\n")
        assert kind == "event: failed"
        event = json.loads(data.removeprefix("data: "))
        assert event["status"] == 500 and request_id(event["detail"]) in caplog.text
        body = {"model": "toy", "messages": [{"role": "user", "content": "a"}], "stream": True}
        response = client.post("/v1/chat/completions", json=body)
        assert response.status_code == 500 and openai_error(response.json())[0] == "server_error"
        assert request_id(response.json()["error"]["message"]) in caplog.text


def test_an_error_after_the_beginning_of_a_stream(
    models: dict[str, Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def pieces(*arguments: object, **options: object) -> Iterator[GeneratedPiece]:
        yield GeneratedPiece(" a", 1)
        fail()

    monkeypatch.setattr(Generator, "stream_pieces", pieces)
    body = {"model": "text", "prompt": "b", "stream": True}
    with caplog.at_level(logging.ERROR), make_client({"text": models["text"]}) as client:
        first, second, last, _ = client.post("/v1/completions", json=body).text.split("\n\n")
        assert json.loads(first.removeprefix("data: "))["choices"][0]["text"] == " a"
        error = json.loads(second.removeprefix("data: "))
        assert openai_error(error)[0] == "server_error" and request_id(error["error"]["message"]) in caplog.text
        assert last == "data: [DONE]"


def test_an_error_in_a_route(
    models: dict[str, Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(v1_responses, "bpe_merges", fail)
    with caplog.at_level(logging.ERROR), make_client({"toy": models["toy"]}) as client:
        response = client.post("/v1/tokenize", json={"model": "toy", "text": "a"})
        assert response.status_code == 500 and request_id(response.json()["detail"]) in caplog.text
