"""Internal errors: the client gets an id, the log has the id and the traceback."""

import json
import logging
from pathlib import Path

import pytest

from regard.pipelines.translator import Translator
from regard.serve.schemas import v1_responses
from tests.serve.conftest import make_client


def fail(*arguments: object, **options: object) -> None:
    raise RuntimeError("secret")


def request_id(detail: str) -> str:
    assert detail.startswith("internal error") and "secret" not in detail
    return detail.split()[-1]


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
        first, last, _ = client.post("/v1/chat/completions", json=body).text.split("\n\n")
        error = json.loads(first.removeprefix("data: "))["error"]
        assert error["code"] == 500 and request_id(error["message"]) in caplog.text
        assert last == "data: [DONE]"


def test_an_error_in_a_route(
    models: dict[str, Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(v1_responses, "bpe_merges", fail)
    with caplog.at_level(logging.ERROR), make_client({"toy": models["toy"]}) as client:
        response = client.post("/v1/tokenize", json={"model": "toy", "text": "a"})
        assert response.status_code == 500 and request_id(response.json()["detail"]) in caplog.text
