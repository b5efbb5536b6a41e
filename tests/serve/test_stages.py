"""The computation inside a model over HTTP: stages, lens, flow, heads, patches, and what a trace predicts."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load as load_tensors
from starlette.testclient import TestClient

import regard as library
from regard.models.stages.stage import BlockStage
from regard.serve.limits import Limits
from tests.models.stage_arithmetic import recompute
from tests.serve.conftest import make_client
from tests.serve.models import save_toy, toy_classifier, toy_state_space

BYTES = {"kind": "decoder", "decoder": {"kind": "transformer", "d_model": 8, "n_heads": 2, "d_ff": 8, "n_layers": 1}}


@pytest.fixture(scope="module")
def folders(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Models of all kinds"""
    made = tmp_path_factory.mktemp("more")
    return {
        **{name: models[name] for name in ("toy", "rnn", "text")},
        "labels": toy_classifier(made / "labels"),
        "masked": toy_classifier(made / "masked", "masked"),
        "ssm": toy_state_space(made / "ssm"),
    }


@pytest.fixture(scope="module")
def all_kinds(folders: dict[str, Path]) -> Iterator[TestClient]:
    with make_client(folders) as client:
        yield client


def post(client: TestClient, path: str = "/v1/trace", **body: object) -> dict[str, Any]:
    response = client.post(path, json={"model": "toy", "text": "a b c d", **body})
    assert response.status_code == 200, response.text
    result: dict[str, Any] = response.json()
    return result


def get(client: TestClient, trace_id: str, what: str, **parameters: Any) -> Any:
    response = client.get(f"/v1/trace/{trace_id}/{what}", params=parameters)
    assert response.status_code == 200, response.text
    is_json = response.headers["content-type"] == "application/json"
    return response.json() if is_json else load_tensors(response.content)


@pytest.mark.parametrize("model", ["toy", "rnn", "text", "labels", "masked", "ssm"])
def test_every_stage_of_every_block_can_be_recomputed_by_a_client(all_kinds: TestClient, model: str) -> None:
    description = all_kinds.get("/v1/describe", params={"model": model}).json()
    trace_id = post(all_kinds, model=model, max_len=4)["id"]
    for block in description["blocks"]:
        answer = get(all_kinds, trace_id, "stages", block=block)
        values = get(all_kinds, trace_id, "values", block=block, value=list(answer["values"]))
        assert {name: list(value.shape) for name, value in values.items()} == {
            name: info["shape"] for name, info in answer["values"].items()
        }
        tensors = {name: SimpleNamespace(tensor=torch.from_numpy(value)) for name, value in values.items()}
        record: Any = SimpleNamespace(values=tensors)
        for stage in answer["stages"]:
            parts = {**stage, "inputs": tuple(stage["inputs"]), "weights": tuple(stage["weights"])}
            expected = recompute(record, BlockStage(**parts))
            if expected is not None:
                np.testing.assert_allclose(values[stage["name"]], expected, rtol=0, atol=2e-4, err_msg=str(stage))


def test_parts_of_values(all_kinds: TestClient) -> None:
    trace_id = post(all_kinds, target=[8, 9, 10])["id"]
    names = ["self.query.weight", "self.query.weight[2:5;0:3]", "self.weights[1:2;2,0;:]", "self.norm[1:99]"]
    values = get(all_kinds, trace_id, "values", block="decoder.1", value=[*names, "self.weights", "self.norm"])
    np.testing.assert_array_equal(values[names[1]], values[names[0]][2:5, :3])
    np.testing.assert_array_equal(values[names[2]], values["self.weights"][1:2][:, [2, 0]])
    np.testing.assert_array_equal(values[names[3]], values["self.norm"][1:])
    for wrong in ("no.such", "self.norm[0:1;0:1;0:1]", "self.norm[9:;:]x", "self.norm[77]", "self.norm[,]"):
        response = all_kinds.get(f"/v1/trace/{trace_id}/values", params={"block": "decoder.1", "value": wrong})
        assert response.status_code == 422, wrong
    for block in ("decoder.7", "nothing", "encoder."):
        assert all_kinds.get(f"/v1/trace/{trace_id}/stages", params={"block": block}).status_code == 422
    assert all_kinds.get("/v1/trace/unknown-trace-id-00/stages", params={"block": "output"}).status_code == 404


def test_values_above_the_limit_are_refused(models: dict[str, Path]) -> None:
    with make_client({"toy": models["toy"]}, Limits(tensor_bytes=1_000)) as client:
        path = f"/v1/trace/{post(client, target=[8, 9])['id']}/values"
        whole = client.get(path, params={"block": "output", "value": "logits.weight"})
        assert whole.status_code == 413 and "name[0:100;0:64]" in whole.json()["detail"]
        part = client.get(path, params={"block": "output", "value": "logits.weight[0:8]"})
        assert part.status_code == 200 and load_tensors(part.content)["logits.weight[0:8]"].shape == (8, 16)


@pytest.mark.parametrize("model", ["toy", "rnn", "text", "labels", "masked", "ssm"])
def test_the_last_row_of_the_lens_is_the_prediction(all_kinds: TestClient, model: str) -> None:
    result = post(all_kinds, model=model, max_len=4, k=3)
    rows = get(all_kinds, result["id"], "lens", k=3)["rows"]
    assert len(rows) == {"rnn": 1, "toy": 7, "ssm": 7}.get(model, 5)
    assert len(rows[-1]["cells"]) == len(result["predictions"])
    if model == "labels":  # labels are chosen among all but the special tokens
        return
    for cell, prediction in zip(rows[-1]["cells"], result["predictions"], strict=True):
        assert [top["token"]["id"] for top in cell["top"]] == [top["token"]["id"] for top in prediction["top"]]
        assert cell["p"] == pytest.approx(np.exp(prediction["log_prob"]), rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("model", ["toy", "text", "labels"])
def test_the_effect_of_a_head_is_that_of_a_trace_without_it(all_kinds: TestClient, model: str) -> None:
    base = post(all_kinds, model=model, max_len=4)
    effects = get(all_kinds, base["id"], "heads")
    assert len(effects["heads"]) == {"toy": 24, "text": 8, "labels": 8}[model]
    assert effects["log_prob"] == pytest.approx(sum(p["log_prob"] for p in base["predictions"]), abs=1e-4)
    deltas = [head["delta"] for head in effects["heads"]]
    assert deltas == sorted(deltas)
    for head in (effects["heads"][0], effects["heads"][-1]):
        name = f"{head['site']}.{head['layer']}.{head['head']}"
        without = post(all_kinds, model=model, max_len=4, ablate=[name], baseline=base["id"])
        assert without["baseline"]["delta"] == pytest.approx(head["delta"], abs=1e-4)


def test_a_patch_with_the_same_text_changes_nothing_and_with_another_gives_its_output(all_kinds: TestClient) -> None:
    """Greedily, because the other text was read with its own output"""
    base, other = post(all_kinds, beam=1), post(all_kinds, text="e f g h", beam=1)
    layers = [{"kind": kind, "layer": layer} for kind in ("encoder", "decoder") for layer in range(2)]
    same = post(all_kinds, beam=1, baseline=base["id"], patch={"text": "a b c d", "sites": layers[:2]})
    assert same["text"] == base["text"] and same["baseline"]["delta"] == pytest.approx(0, abs=1e-4)
    swapped = post(all_kinds, beam=1, baseline=base["id"], patch={"text": "e f g h", "sites": layers[:2]})
    assert swapped["text"] == other["text"]
    assert swapped["hypotheses"][0]["log_prob"] == pytest.approx(other["hypotheses"][0]["log_prob"], abs=1e-4)
    assert [piece["text"] for piece in swapped["patch"]["source"]] == ["▁e", "▁f", "▁g", "▁h", "</s>"]
    one = post(
        all_kinds, beam=1, baseline=base["id"], patch={"text": "e f g h", "sites": [{**layers[0], "position": 1}]}
    )
    assert one["baseline"]["delta"] != pytest.approx(0, abs=1e-4)
    assert post(all_kinds, beam=1)["hypotheses"] == base["hypotheses"], "the model itself is unchanged"
    for wrong in (
        {"kind": "encoder", "layer": 5},
        {"kind": "cross", "layer": 0},
        {"kind": "encoder", "layer": 0, "position": 9},
    ):
        body = {"model": "toy", "text": "a", "patch": {"text": "b", "sites": [wrong]}}
        assert all_kinds.post("/v1/trace", json=body).status_code == 422


def test_the_flow_has_the_lengths_of_the_recorded_vectors(all_kinds: TestClient) -> None:
    trace_id = post(all_kinds, target=[8, 9, 10])["id"]
    response = all_kinds.get(f"/v1/trace/{trace_id}/flow")
    header = json.loads(response.content[8 : 8 + int.from_bytes(response.content[:8], "little")])["__metadata__"]
    points = json.loads(header["points"])
    flow = load_tensors(response.content)
    assert points["decoder"][0] == ["decoder.embedding", ""] and points["decoder"][2] == ["decoder.0", "cross"]
    assert flow["cross.heads"].shape == (2, 4, 3) and flow["encoder.norms"].shape == (5, 5)
    names = ["cross.sum", "cross.out", "cross.joined", "cross.out.weight"]
    values = get(all_kinds, trace_id, "values", block="decoder.0", value=names)
    np.testing.assert_allclose(flow["decoder.norms"][2], np.linalg.norm(values["cross.sum"], axis=-1), atol=1e-4)
    np.testing.assert_allclose(flow["decoder.added"][1], np.linalg.norm(values["cross.out"], axis=-1), atol=1e-4)
    head = values["cross.joined"][:, 4:8] @ values["cross.out.weight"][:, 4:8].T
    np.testing.assert_allclose(flow["cross.heads"][0, 1], np.linalg.norm(head, axis=-1), atol=1e-4)


def test_a_streamed_trace_is_the_same_as_a_whole_one(all_kinds: TestClient) -> None:
    whole = post(all_kinds, max_len=6)
    response = all_kinds.post("/v1/trace", json={"model": "toy", "text": "a b c d", "max_len": 6, "stream": True})
    events = [event.split("\n") for event in response.text.strip().split("\n\n")]
    names = [event[0].removeprefix("event: ") for event in events]
    assert set(names[:-1]) == {"said"} and names[-1] == "done"
    done = json.loads(events[-1][1].removeprefix("data: "))
    assert {**done, "id": ""} == {**whole, "id": ""}
    assert get(all_kinds, done["id"], "lens")["rows"], "a streamed trace is stored too"


def test_each_tab_keeps_its_own_traces(models: dict[str, Path]) -> None:
    with make_client({"toy": models["toy"]}, Limits(tab_traces=2)) as client:
        first = [post(client, target=[8], tab="one")["id"] for _ in range(3)]
        second = [post(client, target=[8], tab="two")["id"] for _ in range(2)]
        found = [client.get(f"/v1/trace/{name}/lens").status_code for name in (*first, *second)]
        assert found == [404, 200, 200, 200, 200]


def test_weights_that_are_not_stored_are_computed_again(models: dict[str, Path]) -> None:
    with make_client({"toy": models["toy"]}) as client:
        name = post(client, target=[8, 9])["id"]
        before = get(client, name, "tensors", names="cross.weights")["cross.weights"]
        records = client.app.state.traces.records  # type: ignore[attr-defined]
        assert len(records) == 1
        records.clear()
        np.testing.assert_array_equal(get(client, name, "tensors", names="cross.weights")["cross.weights"], before)


def test_samples_of_a_language_model(all_kinds: TestClient) -> None:
    options = {"model": "text", "samples": 4, "temperature": 3.0, "max_len": 5, "seed": 7}
    sampled = post(all_kinds, **options)
    assert post(all_kinds, **options)["hypotheses"] == sampled["hypotheses"]
    assert post(all_kinds, **{**options, "seed": 8})["hypotheses"] != sampled["hypotheses"]
    assert len({hypothesis["text"] for hypothesis in sampled["hypotheses"]}) > 1
    assert sampled["decoding"]["samples"] == 4 and sampled["n_prompt"] == 4
    for hypothesis in sampled["hypotheses"]:
        assert sum(hypothesis["log_probs"]) == pytest.approx(hypothesis["log_prob"], abs=1e-3)
    greedy = post(all_kinds, model="text", max_len=5)
    likeliest = post(all_kinds, model="text", max_len=5, samples=1, top_k=1)
    assert likeliest["text"] == greedy["text"] and greedy["hypotheses"][0]["ended_by"] == "length"
    assert len(greedy["target"]) == 9, "an output that was cut has no end"


def test_a_prompt_of_any_length_is_continued(all_kinds: TestClient) -> None:
    """The toy reads 64 tokens."""
    result = post(all_kinds, model="text", text=" ".join("abcdefgh" * 12), max_len=10)
    assert result["n_cut"] == 96 - (64 - 10) and result["n_prompt"] == 54 and len(result["target"]) == 64
    assert [token["text"] for token in result["target"][50:54]] == ["▁e", "▁f", "▁g", "▁h"]


def test_traces_of_encoder_only_models(all_kinds: TestClient, folders: dict[str, Path]) -> None:
    [expected] = library.load(folders["labels"]).classify(["a b c d"])  # type: ignore[union-attr]
    labels = post(all_kinds, model="labels")
    assert labels["predicts"] == "label" and labels["text"].removeprefix("▁") == expected.label.removeprefix("▁")
    [prediction] = labels["predictions"]
    assert np.exp(prediction["log_prob"]) == pytest.approx(max(expected.probabilities.values()), abs=1e-5)
    assert labels["hypotheses"] == [] and [site["name"] for site in labels["sites"]] == ["encoder"]
    masked = post(all_kinds, model="masked")
    assert masked["predicts"] == "source" and len(masked["predictions"]) == len(masked["source"]) == 5
    assert get(all_kinds, masked["id"], "tensors", names="encoder.weights")["encoder.weights"].shape == (2, 4, 5, 5)
    hidden = post(all_kinds, model="masked", mask_src=[1], baseline=masked["id"])
    assert hidden["baseline"]["delta"] != 0
    assert all_kinds.post("/v1/trace", json={"model": "labels", "text": "a", "samples": 2}).status_code == 422


def test_byte_tokens_are_grouped_into_characters(tmp_path: Path) -> None:
    folder = save_toy(tmp_path / "bytes", BYTES, "text", tokenizer="bytes")
    with make_client({"bytes": folder}) as client:
        target = post(client, model="bytes", text="a€!", max_len=1)["target"]
    characters = [token["character"] and (token["character"]["text"], token["character"]["index"]) for token in target]
    assert characters[1:4] == [("€", 0), ("€", 1), ("€", 2)]
