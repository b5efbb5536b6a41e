"""Clients of LibreTranslate and OpenAI work unchanged with the running server."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from libretranslatepy import LibreTranslateAPI
from openai import OpenAI

import regard as library
from tests.serve.live import serving


@pytest.fixture(scope="module")
def server(models: dict[str, Path]) -> Iterator[str]:
    with serving(models) as (address, _):
        yield address


def expected_translation(models: dict[str, Path], text: str) -> str:
    return library.load(models["toy"]).translate([text])[0].text  # type: ignore[union-attr]


def test_libretranslate(server: str, models: dict[str, Path]) -> None:
    client = LibreTranslateAPI(f"{server}/")
    assert client.translate("a b c", "src", "tgt") == expected_translation(models, "a b c")
    assert {row["code"] for row in client.languages()} == {"src", "tgt"}
    assert client.detect("a b c") == [{"confidence": 100.0, "language": "src"}]


def test_libretranslate_requests_and_errors(server: str, models: dict[str, Path]) -> None:
    with httpx.Client(base_url=server) as client:
        pair = {"source": "src", "target": "tgt"}
        several = client.post("/translate", json={"q": ["a b", "c"], **pair}).json()["translatedText"]
        assert several == [expected_translation(models, "a b"), expected_translation(models, "c")]
        missing = client.post("/translate", json=pair)
        assert (missing.status_code, missing.json()["error"]) == (400, "Invalid request: missing q parameter")
        unknown = client.post("/translate", json={"q": "a", "source": "src", "target": "zz"})
        assert (unknown.status_code, unknown.json()["error"]) == (400, "zz is not supported")
        for method, path in (("GET", "/detect"), ("POST", "/languages"), ("POST", "/health"), ("GET", "/translate")):
            assert client.request(method, path).status_code == 405
        assert client.get("/health").json() == {"status": "ok"}
        assert set(client.get("/languages").json()[0]) == {"code", "name", "targets"}
        tagged = client.post("/translate", json={"q": "<b>a</b> b", "format": "html", **pair}).json()["translatedText"]
        assert tagged.count("<b>") == tagged.count("</b>") >= 1
        any_source = client.post("/translate", data={"q": "a b", "source": "auto", "target": "tgt"}).json()
        assert any_source["translatedText"] == several[0]


def test_openai(server: str, models: dict[str, Path]) -> None:
    client = OpenAI(base_url=f"{server}/v1", api_key="none", max_retries=0)
    assert [model.id for model in client.models.list()] == ["toy", "rnn", "text"]
    options = {"model": "text", "prompt": "a b", "max_tokens": 6, "temperature": 0.7, "seed": 3}
    whole = client.completions.create(**options)  # type: ignore[call-overload]
    expected = library.load(models["text"]).generate("a b", max_new_tokens=6, temperature=0.7, top_p=1.0, seed=3)  # type: ignore[union-attr]
    assert "a b" + whole.choices[0].text == expected
    assert whole.usage.prompt_tokens == 2
    pieces = [chunk.choices[0].text for chunk in client.completions.create(**options, stream=True)]  # type: ignore[call-overload]
    assert "".join(pieces) == whole.choices[0].text
    messages = {"model": "toy", "messages": [{"role": "system", "content": "x"}, {"role": "user", "content": "a b c"}]}
    chat = client.chat.completions.create(**messages)  # type: ignore[call-overload]
    assert chat.choices[0].message.content == expected_translation(models, "a b c")
    chunks = client.chat.completions.create(**messages, stream=True)  # type: ignore[call-overload]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == expected_translation(models, "a b c")
