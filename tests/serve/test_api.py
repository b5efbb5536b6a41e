"""The server as clients meet it, in this process: contracts, refusals, and answers that are the library's own."""

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load as tensors_of
from starlette.testclient import TestClient

import regard as library
from regard.bundle import Bundle
from regard.search.decode import DecodeConfig
from regard.serve.app import make_app
from regard.serve.guard import OPEN, Access
from regard.serve.inspect import Question, probe
from regard.serve.limits import Limits
from regard.serve.registry import Registry
from tests.serve.models import toy_captioner, toy_models

HOME = Access(frozenset({"testserver"}))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return toy_models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def client(models: dict[str, Path]) -> Iterator[TestClient]:
    registry = Registry.open([Path(f"{name}={folder}") for name, folder in models.items()], "cpu")
    with TestClient(make_app(registry, HOME)) as client:
        yield client


def test_models_are_listed_for_both_kinds_of_client(client: TestClient) -> None:
    found = client.get("/v1/models").json()
    assert [row["id"] for row in found["data"]] == [row["id"] for row in found["models"]] == ["toy", "rnn", "text"]
    assert found["models"][0]["sites"] == {"encoder": [2, 4], "decoder": [2, 4], "cross": [2, 4]}
    assert found["models"][1]["sites"] == {"cross": [1, 1]}


def test_answers_are_the_library_s(client: TestClient, models: dict[str, Path]) -> None:
    translator = library.load(models["toy"])
    [expected] = translator.translate(["a b c"], beam=3, n_best=2, attention=True)  # type: ignore[union-attr]
    found = client.post("/v1/translate", json={"model": "toy", "text": "a b c", "beam": 3, "n_best": 2}).json()
    assert [h["text"] for h in found["hypotheses"]] == [h.text for h in expected.hypotheses]
    assert [h["score"] for h in found["hypotheses"]] == pytest.approx([h.score for h in expected.hypotheses], abs=1e-5)
    assert found["hypotheses"][0]["alignment"] == [list(link) for link in expected.alignment or ()]


def test_a_stream_ends_with_the_same_answer(client: TestClient) -> None:
    whole = client.post("/v1/translate", json={"model": "toy", "text": "a b c d"}).json()
    streamed = client.post("/v1/translate", json={"model": "toy", "text": "a b c d", "stream": True})
    events = [block.split("\n") for block in streamed.text.strip().split("\n\n")]
    kinds = [kind.removeprefix("event: ") for kind, _ in events]
    assert kinds[-1] == "done" and set(kinds[:-1]) == {"said"}
    assert json.loads(events[-1][1].removeprefix("data: "))["text"] == whole["text"]


def test_a_trace_holds_the_search_and_every_head(client: TestClient, models: dict[str, Path]) -> None:
    trace = client.post("/v1/trace", json={"model": "toy", "text": "a b c", "beam": 3}).json()
    translator = library.load(models["toy"])
    [expected] = translator.translate(["a b c"], beam=3, attention=True)  # type: ignore[union-attr]
    assert trace["hypotheses"][0]["text"] == expected.text
    nodes = {c["node"]: c for step in trace["beam"]["steps"] for c in step["candidates"]}
    assert all(c["parent"] == "r" or nodes[c["parent"]]["state"] == "kept" for c in nodes.values())
    best, said = trace["hypotheses"][0], []
    at = best["node"]
    assert nodes[at]["state"] == "ended" and nodes[at]["log_prob"] == pytest.approx(best["log_prob"])
    assert nodes[at]["score"] == pytest.approx(best["score"])
    while (at := nodes[at]["parent"]) != "r":
        said.append(nodes[at]["token"]["id"])
    assert said[::-1] == [token["id"] for token in best["tokens"]]
    answer = client.get(f"/v1/trace/{trace['id']}/tensors", params={"names": "cross.weights,encoder.thumb"})
    found = tensors_of(answer.content)
    assert expected.attention is not None
    np.testing.assert_allclose(found["cross.weights"], expected.attention.cross, atol=1e-6)
    assert found["encoder.thumb"].dtype == np.uint8
    np.testing.assert_allclose(found["encoder.thumb"] / 255, np.sqrt(expected.attention.encoder), atol=0.003)


@pytest.mark.parametrize("model", ["toy", "rnn", "text"])
def test_one_head_worked_out_gives_its_weights(client: TestClient, model: str) -> None:
    trace = client.post("/v1/trace", json={"model": model, "text": "a b c", "max_len": 5}).json()
    site = trace["sites"][-1]["name"]
    asked = {"trace": trace["id"], "site": site, "layer": 0, "head": 0, "query": 1}
    answer = client.post("/v1/explain", json=asked)
    found = tensors_of(answer.content)
    scores = np.where(found["mask"] > 0, found["scores"], -np.inf)
    weights = np.exp(scores - scores.max())
    np.testing.assert_allclose(weights / weights.sum(), found["weights"], atol=1e-6)
    np.testing.assert_allclose(found["weights"] @ found["V"], found["out"], atol=1e-5)
    header = json.loads(answer.content[8 : 8 + int.from_bytes(answer.content[:8], "little")])["__metadata__"]
    if header["score"] in ("scaled-dot", "dot"):
        np.testing.assert_allclose(found["K"] @ found["q"] * float(header["scale"]), found["scores"], atol=1e-4)
    shown = client.get(f"/v1/trace/{trace['id']}/tensors", params={"names": f"{site}.weights", "layer": 0, "head": 0})
    np.testing.assert_allclose(tensors_of(shown.content)[f"{site}.weights"][1], found["weights"], atol=1e-6)


def test_what_if(client: TestClient) -> None:
    """A head that is off, a token that is hidden, a prefix that is forced, a target that is given"""

    def cross(**more: object) -> tuple[dict[str, object], np.ndarray]:
        trace = client.post("/v1/trace", json={"model": "toy", "text": "a b c d", **more}).json()
        answer = client.get(f"/v1/trace/{trace['id']}/tensors", params={"names": "cross.weights"})
        return trace, tensors_of(answer.content)["cross.weights"]

    plain, weights = cross()
    _, masked = cross(mask_src=[1])
    assert (masked[..., 1] == 0).all() and (weights[..., 1] > 0).any()
    every = [f"cross.{layer}.{head}" for layer in range(2) for head in range(4)]
    silent, _ = cross(ablate=every)
    assert silent["hypotheses"] != plain["hypotheses"]
    assert cross()[0]["hypotheses"] == plain["hypotheses"], "the head is on again"
    forced, _ = cross(prefix=[7])
    assert forced["target"][0]["id"] == 7  # type: ignore[index]
    given, _ = cross(target=[8, 9])
    assert [token["id"] for token in given["target"]] == [8, 9] and given["hypotheses"] == []  # type: ignore[attr-defined]
    asked = {"model": "toy", "text": "a b c d", "prefix": [], "k": 50}
    following = client.post("/v1/next", json=asked).json()
    assert sum(row["p"] for row in following["top"]) + following["rest"] == pytest.approx(1.0)
    for change in ({"mask_src": [0, 1]}, {"ablate": every}):
        assert client.post("/v1/next", json={**asked, **change}).json()["top"] != following["top"]
    assert client.post("/v1/next", json=asked).json() == following


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/translate", {"model": "none", "text": "a"}, 404),
        ("/v1/translate", {"model": "../toy", "text": "a"}, 422),
        ("/v1/translate", {"model": "text", "text": "a"}, 422),
        ("/v1/translate", {"model": "toy"}, 422),
        ("/v1/translate", {"model": "toy", "text": "a", "beam": 17}, 422),
        ("/v1/translate", {"model": "toy", "text": "a", "beam": True}, 422),
        ("/v1/translate", {"model": "toy", "text": "a " * 1500}, 422),
        ("/v1/translate", {"model": "toy", "text": "a " * 900}, 413),
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
        ("/v1/nowhere", {}, 404),
    ],
)
def test_refusals_are_short_and_repeat_nothing(
    client: TestClient, path: str, body: dict[str, object], status: int
) -> None:
    answer = client.post(path, json=body)
    assert answer.status_code == status and len(answer.content) <= 1024
    assert answer.headers["content-type"] == "application/problem+json"
    for value in body.values():
        if isinstance(value, str) and len(value) > 2:
            assert value not in answer.text


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
def test_odd_bodies_are_refused(client: TestClient, path: str, body: bytes) -> None:
    answer = client.post(path, content=body, headers={"content-type": "application/json"})
    assert 400 <= answer.status_code < 500 and len(answer.content) <= 1024


def test_large_bodies_are_refused_unread(client: TestClient) -> None:
    assert client.post("/v1/translate", content=b"x" * 10_000_000).status_code == 413
    declared = {"content-length": "5", "transfer-encoding": "chunked"}
    assert client.post("/v1/translate", content=iter([b"x" * 40_000] * 3), headers=declared).status_code == 413


def test_closed_by_default(models: dict[str, Path]) -> None:
    registry = Registry.open([Path(f"toy={models['toy']}")], "cpu")
    app = make_app(registry, Access(frozenset({"testserver"}), token="let-me-in"))
    with TestClient(app) as client:
        for route in app.routes:
            path = str(getattr(route, "path", "/")).replace("{name}", "x") or "/"
            for method in getattr(route, "methods", None) or {"GET"}:
                expected = 200 if path in OPEN else 401
                assert client.request(method, path).status_code == expected, (method, path)
        right = {"authorization": "Bearer let-me-in"}
        assert client.get("/v1/models", headers=right).status_code == 200
        assert client.get("/v1/models", headers={"authorization": "Bearer let-me-i"}).status_code == 401
        assert client.get("/v1/models", headers={**right, "host": "evil.example"}).status_code == 421
        entered = client.get("/?token=let-me-in", follow_redirects=False)
        assert entered.status_code == 303 and "httponly" in entered.headers["set-cookie"].lower()
        assert client.get("/v1/models").status_code == 200, "the cookie opens the page's own requests"
        headers = client.get("/healthz").headers
        assert (
            "default-src 'self'" in headers["content-security-policy"]
            and headers["x-content-type-options"] == "nosniff"
        )


def test_a_full_queue_refuses_and_says_when_to_come_again(models: dict[str, Path]) -> None:
    registry = Registry.open([Path(f"toy={models['toy']}")], "cpu")
    with TestClient(make_app(registry, HOME, Limits(queue=2))) as client:
        body = {"q": ["a"] * 3, "source": "src", "target": "tgt"}
        answer = client.post("/translate", json=body)
        assert answer.status_code == 429 and int(answer.headers["retry-after"]) >= 1
        assert client.post("/translate", json={**body, "q": ["a", "b"]}).status_code == 200
        assert "regard_refused_total 3" in client.get("/metrics").text


def test_models_come_with_sentences_to_try(models: dict[str, Path], tmp_path: Path) -> None:
    bundle = replace(Bundle.load(models["toy"]), examples=("a b", "c"))
    bundle.save(tmp_path / "toy", "toy")
    with TestClient(make_app(Registry.open([tmp_path / "toy"], "cpu"), HOME)) as client:
        assert client.get("/v1/models").json()["examples"] == {"toy": ["a b", "c"]}


def test_a_captioner_is_shown_pixels(tmp_path: Path) -> None:
    folder = toy_captioner(tmp_path / "sight")
    picture = np.random.default_rng(1).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    [expected] = library.load(folder).caption([picture], attention=True, beam=3, max_len=6)  # type: ignore[union-attr]
    pixels = base64.b64encode(picture.tobytes()).decode()
    with TestClient(make_app(Registry.open([folder], "cpu"), HOME)) as client:
        [model] = client.get("/v1/models").json()["models"]
        assert model["picture"] == {"size": 16, "regions": 2} and model["sites"]["cross"] == [2, 4]
        trace = client.post("/v1/trace", json={"model": "sight", "pixels": pixels, "beam": 3, "max_len": 6}).json()
        assert trace["hypotheses"][0]["text"] == expected.text and len(trace["source"]) == 4
        answer = client.get(f"/v1/trace/{trace['id']}/tensors", params={"names": "cross.weights"})
        weights = tensors_of(answer.content)["cross.weights"]
        assert expected.regions is not None
        np.testing.assert_allclose(weights, expected.regions.reshape(weights.shape), atol=1e-6)
        following = client.post("/v1/next", json={"model": "sight", "pixels": pixels}).json()
        assert following["top"][0]["p"] > 0
        for wrong in ({}, {"pixels": pixels[:-8]}, {"pixels": "!"}, {"pixels": pixels, "mask_src": [0]}):
            assert client.post("/v1/trace", json={"model": "sight", **wrong}).status_code == 422


def test_a_probe_ends_when_nobody_waits(models: dict[str, Path]) -> None:
    [served] = Registry.open([models["toy"]], "cpu")
    config = DecodeConfig(beam=4, min_len=50, max_len=60)
    steps: list[int] = []

    def tired() -> bool:
        steps.append(1)
        return len(steps) > 2

    assert probe(served, Question((7, 8), config), tired) is None
    assert len(steps) <= 4
    assert probe(served, Question((7, 8), config)) is not None


def test_a_stream_that_stops_is_the_whole_answer(client: TestClient) -> None:
    asked = {"model": "text", "prompt": "a b", "max_tokens": 30, "seed": 5, "temperature": 1.5}
    free = client.post("/v1/completions", json=asked).json()["choices"][0]["text"]
    for stop in (free[3:6], free[1:4], "zz"):
        whole = client.post("/v1/completions", json={**asked, "stop": stop}).json()["choices"][0]["text"]
        assert whole == free.split(stop)[0]
        answer = client.post("/v1/completions", json={**asked, "stop": stop, "stream": True}).text
        events = [json.loads(row[6:]) for row in answer.split("\n\n") if row.startswith("data: {")]
        assert "".join(event["choices"][0]["text"] for event in events) == whole
