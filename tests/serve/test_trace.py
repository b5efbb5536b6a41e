"""Looking inside a model: traces, tensors, heads, hidden tokens, heads that are switched off."""

import base64
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load as load_tensors
from starlette.testclient import TestClient

import regard as library
from regard.models.intervention import Intervention
from regard.search.decode import DecodeConfig
from regard.serve import trace_job
from regard.serve.inspect import TraceQuery, Watcher, run_trace, run_traces
from regard.serve.limits import Limits
from regard.serve.registry import Registry
from regard.serve.routes import trace as trace_routes
from regard.text.vocab import EOS
from tests.serve.conftest import make_client
from tests.serve.models import toy_captioner, toy_decoder_only, toy_linear, toy_state_space

ALL_CROSS_HEADS = [f"cross.{layer}.{head}" for layer in range(2) for head in range(4)]


def trace(client: TestClient, **body: object) -> dict[str, Any]:
    response = client.post("/v1/trace", json={"model": "toy", "text": "a b c d", **body})
    assert response.status_code == 200, response.text
    result: dict[str, Any] = response.json()
    return result


def weights_of(client: TestClient, trace_id: str, kind: str = "cross") -> NDArray[np.float32]:
    response = client.get(f"/v1/trace/{trace_id}/tensors", params={"names": f"{kind}.weights"})
    return load_tensors(response.content)[f"{kind}.weights"]


def test_a_trace_has_the_search_and_every_head(client: TestClient, models: dict[str, Path]) -> None:
    result = trace(client, text="a b c", beam=3)
    translator = library.load(models["toy"])
    [expected] = translator.translate(["a b c"], beam=3, attention=True)  # type: ignore[union-attr]
    assert result["hypotheses"][0]["text"] == expected.text
    nodes = {c["node"]: c for step in result["beam"]["steps"] for c in step["candidates"]}
    assert all(c["parent"] == "r" or nodes[c["parent"]]["state"] == "kept" for c in nodes.values())
    best, ids = result["hypotheses"][0], []
    node = best["node"]
    is_cut = best["ended_by"] == "length"
    assert nodes[node]["state"] == ("kept" if is_cut else "ended")
    assert nodes[node]["log_prob"] == pytest.approx(best["log_prob"], abs=1e-5)
    assert nodes[node]["score"] == pytest.approx(best["score"], abs=1e-5)
    assert sum(best["log_probs"]) == pytest.approx(best["log_prob"], abs=1e-5)
    while node != "r":
        ids.append(nodes[node]["token"]["id"])
        node = nodes[node]["parent"]
    assert ids[::-1] == [token["id"] for token in best["tokens"]] + ([] if is_cut else [EOS])
    assert [token["id"] for token in result["target"]] == ids[::-1]
    response = client.get(f"/v1/trace/{result['id']}/tensors", params={"names": "cross.weights,encoder.thumb"})
    tensors = load_tensors(response.content)
    assert expected.attention is not None
    n = len(result["target"])  # without the end of an output that was cut
    np.testing.assert_allclose(tensors["cross.weights"], expected.attention.cross[:, :, :n], atol=1e-6)
    assert tensors["encoder.thumb"].dtype == np.uint8
    np.testing.assert_allclose(tensors["encoder.thumb"] / 255, np.sqrt(expected.attention.encoder), atol=0.003)


@pytest.mark.parametrize("model", ["toy", "rnn", "text"])
def test_the_tensors_of_one_head_give_its_weights(client: TestClient, model: str) -> None:
    result = trace(client, model=model, text="a b c", max_len=5)
    site = result["sites"][-1]["name"]
    body = {"trace": result["id"], "site": site, "layer": 0, "head": 0, "query": 1}
    response = client.post("/v1/explain", json=body)
    tensors = load_tensors(response.content)
    scores = np.where(tensors["mask"] > 0, tensors["scores"], -np.inf)
    weights = np.exp(scores - scores.max())
    np.testing.assert_allclose(weights / weights.sum(), tensors["weights"], atol=1e-6)
    np.testing.assert_allclose(tensors["weights"] @ tensors["V"], tensors["out"], atol=1e-5)
    header = json.loads(response.content[8 : 8 + int.from_bytes(response.content[:8], "little")])["__metadata__"]
    assert header["context"] == ("output" if model == "rnn" else "layer")
    if header["score"] in ("scaled-dot", "dot"):
        np.testing.assert_allclose(tensors["K"] @ tensors["q"] * float(header["scale"]), tensors["scores"], atol=1e-4)
    shown = client.get(f"/v1/trace/{result['id']}/tensors", params={"names": f"{site}.weights", "layer": 0, "head": 0})
    np.testing.assert_allclose(load_tensors(shown.content)[f"{site}.weights"][1], tensors["weights"], atol=1e-6)


def test_hidden_tokens_heads_off_prefixes_and_targets(client: TestClient) -> None:
    plain = trace(client)
    hidden = weights_of(client, trace(client, mask_src=[1])["id"])
    assert (hidden[..., 1] == 0).all() and (weights_of(client, plain["id"])[..., 1] > 0).any()
    assert trace(client, ablate=ALL_CROSS_HEADS)["hypotheses"] != plain["hypotheses"]
    assert trace(client)["hypotheses"] == plain["hypotheses"]
    assert trace(client, prefix=[7])["target"][0]["id"] == 7
    forced = trace(client, target=[8, 9])
    assert [token["id"] for token in forced["target"]] == [8, 9] and forced["hypotheses"] == []
    body = {"model": "toy", "text": "a b c d", "prefix": [], "k": 50}
    following = client.post("/v1/next", json=body).json()
    assert sum(row["p"] for row in following["top"]) + following["rest"] == pytest.approx(1.0)
    for change in ({"mask_src": [0, 1]}, {"ablate": ALL_CROSS_HEADS}):
        assert client.post("/v1/next", json={**body, **change}).json()["top"] != following["top"]
    assert client.post("/v1/next", json=body).json() == following


def test_requests_with_heads_off_do_not_affect_others_at_the_same_time(models: dict[str, Path]) -> None:
    """In threads: each request must get what it gets alone, and no weight may change even for a moment."""
    [served] = Registry.open([models["toy"]], "cpu")
    pipeline = served.pipeline
    heads = [("cross", layer, head) for layer in range(2) for head in range(4)]
    mask = Intervention.switch_off(pipeline.traced_model, heads)
    queries = [
        TraceQuery(pipeline, pipeline.encode("a b c d e f"), DecodeConfig(beam=4, n_best=4), intervention=intervention)
        for intervention in (None, mask)
    ]

    def scores(query: TraceQuery) -> list[float]:
        result = run_trace(query)
        assert result is not None
        return [hypothesis.score for hypothesis in result.hypotheses]

    expected = [scores(query) for query in queries]
    assert expected[0] != expected[1]
    before = {name: tensor.clone() for name, tensor in pipeline.model.state_dict().items()}
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(scores, queries * 12))
    assert results == expected * 12
    assert all((tensor == before[name]).all() for name, tensor in pipeline.model.state_dict().items())


def test_concurrent_http_requests_with_and_without_heads_off(client: TestClient) -> None:
    bodies: list[dict[str, object]] = [{}, {"ablate": ALL_CROSS_HEADS}, {"ablate": ["encoder.0.1"]}]
    expected = [trace(client, **body)["hypotheses"] for body in bodies]
    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(lambda body: trace(client, **body)["hypotheses"], bodies * 6))
    assert results == expected * 6


def test_tokens_are_hidden_only_where_the_model_allows_it(models: dict[str, Path], tmp_path: Path) -> None:
    """A state space or an RNN reads every token; padding in the middle of a source would change the rest of it."""
    folders = {"toy": models["toy"], "rnn": models["rnn"], "text": models["text"]}
    folders |= {"ssm": toy_state_space(tmp_path / "ssm"), "captioner": toy_captioner(tmp_path / "captioner")}
    with make_client(folders) as client:
        can_hide = {model["id"]: model["can_hide_tokens"] for model in client.get("/v1/models").json()["models"]}
        assert can_hide == {"toy": True, "rnn": False, "text": False, "ssm": False, "captioner": False}
        for model in ("rnn", "text", "ssm"):
            for path in ("/v1/trace", "/v1/next"):
                response = client.post(path, json={"model": model, "text": "a b c", "mask_src": [1]})
                assert response.status_code == 422 and "cannot be hidden" in response.json()["detail"]


def test_a_trace_tells_which_attention_is_causal(client: TestClient, tmp_path: Path) -> None:
    """A decoder-only translator reads its source with causal attention too."""
    with make_client({"concat": toy_decoder_only(tmp_path / "concat")}) as other:
        result = trace(other, model="concat")
        causal = {site["name"]: site["causal"] for site in result["sites"]}
        assert causal == {"encoder": True, "decoder": True, "cross": False}
        weights = weights_of(other, result["id"], "encoder")
        assert (np.triu(weights, k=1) == 0).all()
    sites = trace(client)["sites"]
    assert {site["name"]: site["causal"] for site in sites} == {"encoder": False, "decoder": True, "cross": False}


def test_the_cache_grows_with_softmax_attention_only(client: TestClient, tmp_path: Path) -> None:
    def caches(client: TestClient, model: str) -> list[dict[str, int]]:
        return [trace(client, model=model, target=[8] * n)["cache"] for n in (5, 10)]

    short, long = caches(client, "toy")
    assert short["bytes_per_token"] == long["bytes_per_token"] == 2 * 2 * 16 * 4  # layers × (key and value) × width
    assert short["bytes"] == 5 * short["bytes_per_token"] and long["bytes"] == 10 * long["bytes_per_token"]
    with make_client({"linear": toy_linear(tmp_path / "linear")}) as other:
        short, long = caches(other, "linear")
        assert short["bytes"] == long["bytes"] == 2 * 4 * 4 * (4 + 1) * 4  # layers × heads × K × (Dv + 1)
        assert short["bytes_per_token"] == 0


def test_tensors_above_the_limit_are_refused(models: dict[str, Path]) -> None:
    with make_client({"toy": models["toy"]}, Limits(tensor_bytes=2_000)) as client:
        result = trace(client, target=[8] * 15)  # [2, 4, 15, 5] weights
        path = f"/v1/trace/{result['id']}/tensors"
        response = client.get(path, params={"names": "cross.weights"})
        assert response.status_code == 413 and "one layer and head" in response.json()["detail"]
        for fitting in ({"names": "cross.weights", "layer": 0, "head": 3}, {"names": "cross.weights", "dtype": "u8"}):
            assert client.get(path, params=fitting).status_code == 200
        two = client.get(path, params={"names": "cross.weights,decoder.weights", "dtype": "u8"})
        assert two.status_code == 413, "the limit is for all tensors of a response"


def test_tensors_are_serialised_in_a_worker(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop must answer other requests meanwhile."""
    result, started, release = trace(client), threading.Event(), threading.Event()
    save = trace_routes.save

    def slow_save(*arguments: Any, **options: Any) -> bytes:
        started.set()
        assert release.wait(10)
        return save(*arguments, **options)

    monkeypatch.setattr(trace_routes, "save", slow_save)
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(client.get, f"/v1/trace/{result['id']}/tensors", params={"names": "cross.weights"})
        assert started.wait(10)
        answered = ThreadPoolExecutor(1).submit(client.get, "/healthz").result(5)
        release.set()
        assert answered.status_code == 200 and pending.result(10).status_code == 200


def test_other_requests_do_not_wait_for_a_trace(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    started, release = threading.Event(), threading.Event()

    def slow_trace(*arguments: Any) -> list[None]:
        started.set()
        assert release.wait(10)
        return [None]

    monkeypatch.setattr(trace_job, "run_traces", slow_trace)
    with ThreadPoolExecutor(2) as pool:
        pending = pool.submit(client.post, "/v1/trace", json={"model": "toy", "text": "a b"})
        assert started.wait(10)
        others = {
            "/v1/translate": {"model": "toy", "text": "a"},
            "/v1/completions": {"model": "text", "prompt": "a", "max_tokens": 2},
        }
        for path, body in others.items():
            answered = pool.submit(client.post, path, json=body).result(8)
            assert answered.status_code == 200, path
        release.set()
        assert pending.result(10).status_code == 504, "this trace was given up"


def test_a_captioner_reads_pixels(tmp_path: Path) -> None:
    folder = toy_captioner(tmp_path / "captioner")
    image = np.random.default_rng(1).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    [expected] = library.load(folder).caption([image], attention=True, beam=3, max_len=6)  # type: ignore[union-attr]
    pixels = base64.b64encode(image.tobytes()).decode()
    with make_client({"captioner": folder}) as client:
        [model] = client.get("/v1/models").json()["models"]
        assert model["picture"] == {"size": 16, "regions": 2} and model["sites"]["cross"] == [2, 4]
        result = trace(client, model="captioner", pixels=pixels, beam=3, max_len=6)
        assert result["hypotheses"][0]["text"] == expected.text and len(result["source"]) == 4
        weights = weights_of(client, result["id"])
        assert expected.regions is not None
        regions = expected.regions[:, :, : weights.shape[2]]  # without the end, if the caption was cut
        np.testing.assert_allclose(weights, regions.reshape(weights.shape), atol=1e-6)
        following = client.post("/v1/next", json={"model": "captioner", "pixels": pixels}).json()
        assert following["top"][0]["p"] > 0
        for wrong in ({}, {"pixels": pixels[:-8]}, {"pixels": "!"}, {"pixels": pixels, "mask_src": [0]}):
            assert client.post("/v1/trace", json={"model": "captioner", **wrong}).status_code == 422


def test_a_trace_stops_when_it_is_cancelled(models: dict[str, Path]) -> None:
    [served] = Registry.open([models["toy"]], "cpu")
    config = DecodeConfig(beam=4, min_len=50, max_len=60)
    query = TraceQuery(served.pipeline, served.pipeline.encode("a b"), config)
    calls: list[int] = []

    def is_cancelled() -> bool:
        calls.append(1)
        return len(calls) > 2

    assert run_trace(query, Watcher(is_cancelled)) is None
    assert len(calls) <= 4
    assert run_trace(query) is not None


def test_traces_that_are_searched_for_together_are_those_of_each_alone(models: dict[str, Path]) -> None:
    """And the text that is reported on the way"""
    [served] = Registry.open([models["toy"]], "cpu")
    config = DecodeConfig(beam=3, n_best=3)
    texts = ("a b c d e f g", "h", "p o n")
    queries = [TraceQuery(served.pipeline, served.pipeline.encode(text), config, (7,)) for text in texts]
    said: list[list[str]] = [[] for _ in queries]
    together = run_traces(queries, [Watcher(report=each.append) for each in said])
    for query, result, reported in zip(queries, together, said, strict=True):
        alone_said: list[str] = []
        alone = run_trace(query, Watcher(report=alone_said.append))
        assert result is not None and alone is not None and reported == alone_said
        assert [h.ids for h in result.hypotheses] == [h.ids for h in alone.hypotheses]
        assert [[(n.name, n.ids, n.state) for n in step] for step in result.steps] == [
            [(n.name, n.ids, n.state) for n in step] for step in alone.steps
        ]
        np.testing.assert_allclose(result.predictions.log_probs, alone.predictions.log_probs, atol=1e-5)
    one_cancelled = [Watcher(), Watcher(is_cancelled=lambda: True), Watcher()]
    assert [result is None for result in run_traces(queries, one_cancelled)] == [False, True, False]
