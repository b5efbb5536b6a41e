"""LibreTranslate's client works unchanged with the running server."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from libretranslatepy import LibreTranslateAPI

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
    assert client.detect("a b c") == [{"confidence": 0.0, "language": "src"}], "there is no language of that name"


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
