"""The server as its clients use it: responses equal the library's, and invalid requests are refused."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import regard as library
from regard.bundle import Bundle
from regard.search.decode import DecodeConfig
from regard.serve.app import make_app
from regard.serve.batch_queue import FunctionJob, QueuedJob
from regard.serve.errors import is_libretranslate
from regard.serve.guard import PUBLIC_PATHS, Access
from regard.serve.limits import Limits
from regard.serve.registry import Registry
from regard.text.seen_words import SeenWords
from tests.serve.conftest import make_client
from tests.serve.models import STACK, save_toy


def test_models_are_listed_for_both_kinds_of_client(client: TestClient) -> None:
    response = client.get("/v1/models").json()
    names = [row["id"] for row in response["models"]]
    assert [row["id"] for row in response["data"]] == names == ["toy", "rnn", "text"]
    assert response["models"][0]["sites"] == {"encoder": [2, 4], "decoder": [2, 4], "cross": [2, 4]}
    assert response["models"][1]["sites"] == {"cross": [1, 1]}
    assert [row["task"] for row in response["models"]] == ["translator", "translator", "writer"]


def test_models_are_listed_with_their_own_settings(models: dict[str, Path], tmp_path: Path) -> None:
    own = replace(Bundle.load(models["toy"]), decode=DecodeConfig(beam=3, length_penalty=0.9))
    own.save(tmp_path / "own", "own")
    with make_client({"own": tmp_path / "own", "text": models["text"]}) as client:
        own_info, text = client.get("/v1/models").json()["models"]
        assert own_info["decode"] == {"beam": 3, "length_penalty": 0.9} and text["decode"]["beam"] == 1


def test_responses_are_the_library_s(client: TestClient, models: dict[str, Path]) -> None:
    translator = library.load(models["toy"])
    [expected] = translator.translate(["a b c"], beam=3, n_best=2, attention=True)  # type: ignore[union-attr]
    response = client.post("/v1/translate", json={"model": "toy", "text": "a b c", "beam": 3, "n_best": 2}).json()
    assert [h["text"] for h in response["hypotheses"]] == [h.text for h in expected.hypotheses]
    scores = [h["score"] for h in response["hypotheses"]]
    assert scores == pytest.approx([h.score for h in expected.hypotheses], abs=1e-5)
    confidence = expected.confidence
    assert response["hypotheses"][0]["confidence"] == pytest.approx(confidence, abs=1e-5) and 0.0 < confidence < 1.0
    assert response["hypotheses"][0]["alignment"] == [list(link) for link in expected.alignment or ()]


def test_a_stream_ends_with_the_same_translation(client: TestClient) -> None:
    whole = client.post("/v1/translate", json={"model": "toy", "text": "a b c d"}).json()
    streamed = client.post("/v1/translate", json={"model": "toy", "text": "a b c d", "stream": True})
    events = [block.split("\n") for block in streamed.text.strip().split("\n\n")]
    kinds = [kind.removeprefix("event: ") for kind, _ in events]
    assert kinds[-1] == "done" and set(kinds[:-1]) == {"said"}
    assert json.loads(events[-1][1].removeprefix("data: "))["text"] == whole["text"]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/translate", {"model": "none", "text": "a"}, 404),
        ("/v1/translate", {"model": "../toy", "text": "a"}, 422),
        ("/v1/translate", {"model": "text", "text": "a"}, 422),
        ("/v1/translate", {"model": "toy"}, 422),
        ("/v1/translate", {"model": "toy", "text": "a", "beam": 17}, 422),
        ("/v1/translate", {"model": "toy", "text": "a", "beam": True}, 422),
        ("/v1/translate", {"model": "toy", "text": "a " * 11_000}, 422),
        ("/v1/translate", {"model": "toy", "text": "a " * 1100}, 413),
        ("/v1/translate", {"model": "toy", "text": "a", "secret": "zzz"}, 422),
        ("/v1/trace", {"model": "toy", "text": ""}, 422),
        ("/v1/trace", {"model": "rnn", "text": "a b", "target": []}, 422),
        ("/v1/next", {"model": "toy", "text": "a b", "temperature": 5e-324}, 422),
        ("/v1/translate", {"model": "toy", "text": "a", "prefix": "c " * 900}, 413),
        ("/v1/trace", {"model": "toy", "text": "a", "ablate": ["cross.9.9"]}, 422),
        ("/v1/trace", {"model": "rnn", "text": "a", "mask_src": [0]}, 422),
        ("/v1/trace", {"model": "toy", "text": "a", "target": [2_000_000]}, 422),
        ("/v1/next", {"model": "toy", "text": "a", "prefix": [-1]}, 422),
        ("/v1/explain", {"trace": "A" * 20, "site": "cross", "layer": 0, "head": 0, "query": 0}, 404),
        ("/nowhere", {}, 404),
    ],
)
def test_errors_are_short_and_repeat_nothing_of_the_request(
    client: TestClient, path: str, body: dict[str, object], status: int
) -> None:
    response = client.post(path, json=body)
    assert response.status_code == status and len(response.content) <= 1024
    assert response.headers["content-type"] == "application/problem+json"
    assert set(response.json()) == {"type", "title", "status", "detail"}
    for value in body.values():
        if isinstance(value, str) and len(value) > 2:
            assert value not in response.text


BODIES = [
    b'{"model": "toy", "text": NaN}',
    b'{"model": "toy", "text": "a", "length_penalty": Infinity}',
    b'{"model": "toy", "text": "a", "length_penalty": 1e999}',
    b'{"model": "toy", "text": "\\ud800"}',
    b'{"model": "toy", "text": "a", "beam": ' + b"9" * 5000 + b"}",
    b"[" * 20_000 + b"]" * 20_000,
    b'{"model": "toy", "text": "a"}'.decode().encode("utf-16"),
    b"\xff\xfe\x00",
    b"",
    b"null",
    b'"text"',
]


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
@pytest.mark.parametrize("path", ["/v1/translate", "/v1/trace", "/translate", "/v1/chat/completions"])
def test_malformed_bodies_are_refused(client: TestClient, path: str, body: bytes) -> None:
    response = client.post(path, content=body, headers={"content-type": "application/json"})
    assert 400 <= response.status_code < 500 and len(response.content) <= 1024


def test_bodies_that_are_too_large_are_not_read(client: TestClient) -> None:
    assert client.post("/v1/translate", content=b"x" * 10_000_000).status_code == 413
    assert client.post("/v1/translate", content=iter([b"x" * 100_000] * 3)).status_code == 413


def test_every_route_but_the_health_checks_needs_the_token(models: dict[str, Path]) -> None:
    registry = Registry.open([Path(f"toy={models['toy']}")], "cpu")
    app = make_app(registry, Access(frozenset({"testserver"}), token="let-me-in"))
    paths = {path for route in app.routes if (path := getattr(route, "path", None))} | set(app.openapi()["paths"])
    assert {"/", "/icon.svg", "/v1/trace/{trace_id}/tensors", "/translate"} <= paths
    with TestClient(app) as client:
        for path in paths:
            for method in ("GET", "POST"):
                status = client.request(method, path.replace("{trace_id}", "x")).status_code
                refused = 403 if is_libretranslate(path) else 401
                expected = refused if path not in PUBLIC_PATHS else 200 if method == "GET" else 405
                assert status == expected, (method, path)
        bearer = {"authorization": "Bearer let-me-in"}
        assert client.get("/v1/models", headers=bearer).status_code == 200
        assert client.get("/v1/models", headers={"authorization": "Bearer let-me-i"}).status_code == 401
        assert client.get("/v1/models", headers={**bearer, "host": "evil.example"}).status_code == 421
        login = client.get("/?token=let-me-in", follow_redirects=False)
        assert login.status_code == 303 and "httponly" in login.headers["set-cookie"].lower()
        assert client.get("/v1/models").status_code == 200, "the cookie allows the page's own requests"
        headers = client.get("/healthz").headers
        assert "default-src 'self'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_a_full_queue_refuses_and_tells_when_to_try_again(models: dict[str, Path]) -> None:
    with make_client({"toy": models["toy"]}, Limits(queue=3)) as client:
        queue = client.app.state.dispatcher.queues["translate"]  # type: ignore[attr-defined]
        long, short = ({"q": text, "source": "src", "target": "tgt"} for text in ("a b.\n" * 1000, "a b."))
        queue.batch = [QueuedJob(FunctionJob(lambda queued: None, "translate"))]  # as if it were busy
        response = client.post("/translate", json=long)
        assert response.status_code == 429 and int(response.headers["retry-after"]) >= 1
        assert 'regard_refused_total{queue="translate"} 1' in client.get("/metrics").text
        assert client.post("/translate", json=short).status_code == 200
        queue.batch = []
        assert client.post("/translate", json=long).status_code == 200, "an empty queue takes any text"


def test_models_are_listed_with_example_texts(models: dict[str, Path], tmp_path: Path) -> None:
    bundle = replace(Bundle.load(models["toy"]), examples=("a b", "c"))
    bundle.save(tmp_path / "toy", "toy")
    with make_client({"toy": tmp_path / "toy"}) as client:
        assert client.get("/v1/models").json()["examples"] == {"toy": ["a b", "c"]}


def test_a_missing_model_name_means_the_only_fitting_model(models: dict[str, Path]) -> None:
    def translate(*names: str) -> tuple[int, str]:
        with make_client({name: models[name] for name in names}) as client:
            response = client.post("/v1/translate", json={"text": "a b"})
            return response.status_code, response.json().get("detail", "")

    assert translate("toy", "text")[0] == 200
    status, detail = translate("toy", "rnn")
    assert status == 422 and "more than one translator" in detail
    status, detail = translate("text")
    assert status == 422 and "no translator" in detail and "more than one" not in detail
    with make_client({}) as client:
        assert "no model" in client.post("/v1/tokenize", json={"text": "a"}).json()["detail"]
        assert "no translator" in client.post("/detect", json={"q": "a"}).json()["error"]


def test_a_stream_that_stops_early_has_the_whole_text(client: TestClient) -> None:
    body = {"model": "text", "prompt": "a b", "max_tokens": 30, "seed": 5, "temperature": 1.5}
    free = client.post("/v1/completions", json=body).json()["choices"][0]["text"]
    for stop in (free[3:6], free[1:4], "zz"):
        whole = client.post("/v1/completions", json={**body, "stop": stop}).json()["choices"][0]["text"]
        assert whole == free.split(stop)[0]
        streamed = client.post("/v1/completions", json={**body, "stop": stop, "stream": True}).text
        chunks = [json.loads(row[6:]) for row in streamed.split("\n\n") if row.startswith("data: {")]
        assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == whole


@pytest.fixture(scope="module")
def byte_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A language model that samples bytes at random, so that most of its characters consist of several tokens"""
    folder = tmp_path_factory.mktemp("bytes") / "bytes"
    save_toy(folder, {"kind": "decoder", "decoder": STACK}, "text", tokenizer="bytes")
    with make_client({"bytes": folder}) as client:
        yield client


@pytest.mark.parametrize("n_tokens", [1, 7, 20])
def test_finish_reason_is_length_when_all_tokens_are_used(byte_client: TestClient, n_tokens: int) -> None:
    """A character may consist of several tokens, and the last one may be incomplete."""
    body = {"model": "bytes", "prompt": "a", "max_tokens": n_tokens, "temperature": 2.0}
    for seed in range(5):
        [choice] = byte_client.post("/v1/completions", json={**body, "seed": seed}).json()["choices"]
        assert choice["finish_reason"] == "length"


@pytest.fixture
def with_words(models: dict[str, Path], tmp_path: Path) -> Iterator[TestClient]:
    """A server of a translator that has seen the letters in lower case"""
    replace(Bundle.load(models["toy"]), words=SeenWords.count(["a b c d e f g"])).save(tmp_path / "toy", "toy")
    with make_client({"toy": tmp_path / "toy"}) as client:
        yield client


def test_texts_are_translated_sentence_by_sentence(with_words: TestClient) -> None:
    def translate(text: str, **options: object) -> dict[str, Any]:
        response = with_words.post("/v1/translate", json={"model": "toy", "text": text, **options})
        assert response.status_code == 200, response.text
        return response.json()  # type: ignore[no-any-return]

    one, two = translate("a b c!"), translate("D e z")
    both = translate("a b c!\n\n  D e z ")
    assert both["text"] == f"{one['text']}\n\n  {two['text']} "
    assert both["unknown"] == two["unknown"] == ["z"] and one["unknown"] == []
    assert [sentence["read"] for sentence in both["sentences"]] == ["a b c", "d e z"]
    assert [token["word"] for token in both["source"]] == [0, 1, 2, 3, 4, 5]
    n = len(one["text"].split())
    links = [[i + 3, j + n] for i, j in two["hypotheses"][0]["alignment"]]
    assert both["hypotheses"][0]["alignment"] == [*one["hypotheses"][0]["alignment"], *links]
    words = [token["word"] for token in both["hypotheses"][0]["tokens"]]
    assert words == [token["word"] for token in one["hypotheses"][0]["tokens"]] + [
        token["word"] + n for token in two["hypotheses"][0]["tokens"]
    ]
    several = translate("a b! c d!", n_best=2, beam=2)
    assert len(several["sentences"]) == 2 and len(several["hypotheses"]) == 2
    events = with_words.post("/v1/translate", json={"text": "a b c!\n\n  D e z ", "stream": True}).text
    assert json.loads(events.strip().split("data: ")[-1])["text"] == both["text"]
    libre = {"q": ["a b c!\n\n  D e z ", "a b c!"], "source": "src", "target": "tgt"}
    assert with_words.post("/translate", json=libre).json()["translatedText"] == [both["text"], one["text"]]
    tagged = {"q": "<p>a b c!</p>\n<p>D e z</p>", "source": "src", "target": "tgt", "format": "html"}
    translated = with_words.post("/translate", json=tagged).json()["translatedText"]
    assert translated == f"<p>{one['text']}</p>\n<p>{two['text']}</p>"
    assert translate("A b!", as_written=True)["sentences"][0]["read"] == "A b!"
    assert translate(" \n")["sentences"] == [] and translate("!!!")["text"] == "!!!"


def test_the_limits_hold_for_texts_and_sentences(models: dict[str, Path]) -> None:
    with make_client({"toy": models["toy"]}, Limits(tokens=8, chars=60)) as client:
        for text, status in (("a b! c d! e f! g h! a", 200), ("a b c d e f g h i", 400), ("x" * 61, 400)):
            response = client.post("/translate", json={"q": text, "source": "src", "target": "tgt"})
            assert response.status_code == status, text


def test_long_texts_are_answered_like_short_ones(client: TestClient) -> None:
    """A worker makes the responses of long texts."""
    sentence = "a b c d e f g h! "
    body = {"model": "toy", "text": sentence * 150, "max_len": 2}
    whole = client.post("/v1/translate", json=body).json()
    assert len(whole["sentences"]) == 150 and len(whole["text"]) >= 150
    streamed = client.post("/v1/translate", json={**body, "stream": True}).text
    assert json.loads(streamed.strip().split("data: ")[-1])["text"] == whole["text"]


def test_directories_with_a_plus_between_them_are_an_ensemble(models: dict[str, Path]) -> None:
    ensemble, expected = f"{models['toy']}+{models['rnn']}", library.load(models["toy"], models["rnn"], device="cpu")
    assert isinstance(expected, library.Translator)
    with make_client({"both": Path(ensemble)}) as client:
        response = client.post("/v1/translate", json={"text": "a b c"}).json()
        assert response["hypotheses"][0]["text"] == expected.translate(["a b c"])[0].text
        [info] = client.get("/v1/models").json()["models"]
        assert info["parameters"] == sum(p.numel() for model in expected.members for p in model.parameters())
    with pytest.raises(library.UserError, match="missing: no model found"):
        Registry.open([Path(f"both={models['toy']}+missing")], "cpu")
