"""Glossaries in requests to /v1/translate."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import regard as library
from regard.serve.batch_queue import QueuedJob
from regard.serve.jobs import TranslationJob
from regard.serve.limits import Limits
from regard.serve.registry import Registry
from tests.serve.conftest import make_client


def request(text: str, *terms: tuple[str, str], **options: object) -> dict[str, Any]:
    return {"model": "toy", "text": text, "glossary": [{"source": s, "target": t} for s, t in terms], **options}


def test_the_response_is_the_library_s(client: TestClient, models: dict[str, Path]) -> None:
    translator = library.load(models["toy"])
    assert isinstance(translator, library.Translator)
    glossary = library.Glossary.of({"a b": "h h", "d": "z | c"})
    [expected] = translator.translate(["a b c d"], glossary=glossary, attention=True)
    response = client.post("/v1/translate", json=request("a b c d", ("a b", "h h"), ("d", "z | c"))).json()
    assert response["text"] == expected.text and "h h" in response["text"] and response["unmet_terms"] == []
    assert response["hypotheses"][0]["alignment"] == [list(link) for link in expected.alignment or ()]
    plain = client.post("/v1/translate", json={"model": "toy", "text": "a b c d"}).json()
    assert client.post("/v1/translate", json=request("a b c d")).json()["text"] == plain["text"]


def test_an_unmet_term_is_named(client: TestClient) -> None:
    response = client.post("/v1/translate", json=request("a b", ("b", "unseen"), ("c", "unseen"))).json()
    assert response["unmet_terms"] == ["b"]


def test_a_stream_has_the_terms(client: TestClient) -> None:
    events = client.post("/v1/translate", json=request("a b c", ("b", "h h"), stream=True)).text.strip().split("\n\n")
    assert "h h" in json.loads(events[-1].partition("data: ")[2])["text"]


def test_the_search_for_terms_ends_when_the_request_is_cancelled(
    models: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    [served] = Registry.open([models["toy"]], "cpu").of_kind(library.Translator)
    glossary = library.Glossary.of({"b": "h h"})
    queued = [
        QueuedJob(TranslationJob(served, "a b c", served.pipeline.decode_config, glossary=glossary)) for _ in range(2)
    ]
    n_searches, decode_all = 0, library.Translator._decode_all

    def decode_and_cancel(self: library.Translator, *arguments: Any) -> Any:
        nonlocal n_searches
        n_searches += 1
        decoded = decode_all(self, *arguments)
        queued[0].abandoned.set()  # by a client that goes away after the first search
        return decoded

    monkeypatch.setattr(library.Translator, "_decode_all", decode_and_cancel)
    cancelled, other = queued[0].job.run(queued)
    assert n_searches == 2 and cancelled is None and "h h" in other.text


def test_requests_at_the_same_time_keep_their_own_glossaries(client: TestClient) -> None:
    targets = ["h h", "g f", "c c", "h g"]
    with ThreadPoolExecutor(4) as pool:
        bodies = [request("a b", ("b", target)) for target in targets]
        responses = list(pool.map(lambda body: client.post("/v1/translate", json=body).json(), bodies))
    for target, response in zip(targets, responses, strict=True):
        assert target in response["text"]


@pytest.mark.parametrize(
    "glossary",
    [
        [{"source": "a", "target": "b"}] * 4,
        [{"source": "a" * 11, "target": "b"}],
        [{"source": "a", "target": "b" * 11}],
        [{"source": "a"}],
        [{"source": "a", "target": ""}],
        [{"source": "-", "target": "b"}],
        [{"source": "a", "target": "b |"}],
        {"a": "b"},
        "a",
    ],
    ids=str,
)
def test_wrong_glossaries_are_refused(models: dict[str, Path], glossary: object) -> None:
    with make_client({"toy": models["toy"]}, Limits(terms=3, term_chars=10)) as small:
        response = small.post("/v1/translate", json={"model": "toy", "text": "a", "glossary": glossary})
    assert response.status_code == 422
    assert "bbb" not in response.text and "aaa" not in response.text, "requests are not repeated in errors"
