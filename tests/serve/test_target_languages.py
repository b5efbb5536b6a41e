"""A served model with several target languages, in each API."""

import asyncio
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from regard.pipelines.load import load_translator
from regard.serve.batch_queue import JobQueue
from regard.serve.jobs import TextsJob, TranslationJob
from regard.serve.limits import Limits
from regard.serve.registry import Registry
from tests.pipelines.examples import TEXT, multilingual_bundle
from tests.serve.conftest import make_client

PARAGRAPH = f"The witch arrived. Did they sleep? {TEXT}."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "many"
    multilingual_bundle().save(folder, "untrained")
    return folder


@pytest.fixture(scope="module")
def expected(folder: Path) -> dict[str, str]:
    """The translations of PARAGRAPH by language"""
    translator = load_translator(folder, device="cpu")
    texts = {to: translator.translate([PARAGRAPH], to=to, split=True)[0].text for to in ("fr", "de")}
    assert texts["fr"] != texts["de"]
    return texts


@pytest.fixture(scope="module")
def client(folder: Path, models: dict[str, Path]) -> Iterator[TestClient]:
    with make_client({"many": folder, "toy": models["toy"]}) as client:
        yield client


def post(client: TestClient, path: str, status: int = 200, **body: object) -> Any:
    response = client.post(path, json=body)
    assert response.status_code == status, response.text
    return response.json()


def test_languages_lists_every_target(client: TestClient) -> None:
    targets = {row["code"]: row["targets"] for row in client.get("/languages").json()}
    assert targets["en"] == ["de", "fr"] and targets["nl"] == ["fr"] and targets["src"] == ["tgt"]


def test_empty_texts_are_answered(client: TestClient, expected: dict[str, str]) -> None:
    texts = [PARAGRAPH, ""]
    assert post(client, "/translate", q=texts, source="en", target="fr")["translatedText"] == [expected["fr"], ""]
    assert post(client, "/v1/translate", model="many", text="", to="fr")["text"] == ""
    assert post(client, "/v1/sentences", model="many", text="", to="fr")["sentences"] == []
    completion = post(client, "/v1/completions", model="many:fr", prompt="")
    assert completion["choices"][0]["text"] == ""


def test_libretranslate_chooses_by_the_target(client: TestClient, expected: dict[str, str]) -> None:
    for to, text in expected.items():
        assert post(client, "/translate", q=PARAGRAPH, source="en", target=to)["translatedText"] == text
        html = post(client, "/translate", q=f"<p>{PARAGRAPH}</p>", source="en", target=to, format="html")
        assert html["translatedText"] == f"<p>{escape(text, quote=False)}</p>"
        form = {"source": "en", "target": to}
        response = client.post("/translate_file", data=form, files={"file": ("a.txt", PARAGRAPH.encode())})
        assert client.get(response.json()["translatedFileUrl"]).text == text
    assert "not available" in post(client, "/translate", 400, q=TEXT, source="nl", target="de")["error"]


def test_the_pages_api_takes_to(client: TestClient, expected: dict[str, str]) -> None:
    for to, text in expected.items():
        body = post(client, "/v1/translate", model="many", text=PARAGRAPH, to=to)
        tag = {"fr": ">>fra<<", "de": ">>deu<<"}[to]
        assert body["text"] == text and body["source"][0] == {
            "id": body["source"][0]["id"],
            "text": f"▁{tag}",
            "word": -1,
            "character": None,
        }
        assert [part["read"].split()[0] for part in body["sentences"]] == [tag] * 3
        assert post(client, "/v1/translate", model="many", text=f"{tag} {PARAGRAPH}")["text"] == text
        prefixed = post(client, "/v1/translate", model="many", text=TEXT, to=to, prefix="the")
        assert prefixed["text"].startswith("the")
        by_option = post(client, "/v1/trace", model="many", text=TEXT, to=to)
        by_tag = post(client, "/v1/trace", model="many", text=f"{tag} {TEXT}")
        assert by_option["hypotheses"] == by_tag["hypotheses"] and by_option["source"] == by_tag["source"]
        assert post(client, "/v1/next", model="many", text=TEXT, to=to) == post(
            client, "/v1/next", model="many", text=f"{tag} {TEXT}"
        )


def test_the_list_of_models_has_the_targets(client: TestClient) -> None:
    listed = client.get("/v1/models").json()
    assert {model["id"]: model["targets"] for model in listed["models"]} == {"many": ["fr", "de"], "toy": []}
    assert [model["id"] for model in listed["data"]] == ["many", "many:fr", "many:de", "toy"]
    for model in listed["data"]:
        assert client.get(f"/v1/models/{model['id']}").json() == model


def test_openai_chooses_by_the_name_of_the_model(client: TestClient, expected: dict[str, str]) -> None:
    for to, text in expected.items():
        name = f"many:{to}"
        body = post(client, "/v1/completions", model=name, prompt=PARAGRAPH)
        assert body["choices"][0]["text"] == text and body["model"] == name
        messages = [{"role": "user", "content": PARAGRAPH}]
        chat = post(client, "/v1/chat/completions", model=name, messages=messages, logprobs=True)
        assert chat["choices"][0]["message"]["content"] == text
        tag = {"fr": ">>fra<<", "de": ">>deu<<"}[to]
        assert post(client, "/v1/completions", model="many", prompt=f"{tag} {PARAGRAPH}")["choices"] == body["choices"]


def test_a_wrong_target_is_refused_with_the_choices(client: TestClient) -> None:
    for path in ("/v1/translate", "/v1/trace", "/v1/next"):
        for more in ({}, {"to": "it"}):
            assert post(client, path, 422, model="many", text=TEXT, **more)["detail"] == "to must be one of fr, de"
        assert "leave it out" in post(client, path, 422, model="toy", text="a b", to="it")["detail"]
    error = post(client, "/v1/completions", 400, model="many", prompt=TEXT)["error"]
    assert error["param"] == "model" and error["message"].endswith("many:fr, many:de")
    for name in ("many:it", "many:", "toy:fr", "none:fr"):
        assert post(client, "/v1/completions", 404, model=name, prompt=TEXT)["error"]["code"] == "model_not_found"


def test_requests_of_several_languages_share_a_batch_and_give_the_same_as_alone(folder: Path) -> None:
    [served] = Registry.open([folder], "cpu").models.values()
    config = served.pipeline.decode_config
    jobs: list[Any] = [TextsJob(served, (TEXT, PARAGRAPH), config, to=to) for to in ("fr", "de")]
    jobs.append(TextsJob(served, (f">>deu<< {TEXT}",), config, to="fr"))

    async def run(*groups: list[Any]) -> tuple[list[Any], int]:
        queue = JobQueue(Limits(linger_seconds=0.2))
        results = [await queue.put(group) for group in groups]
        await asyncio.to_thread(queue.close)  # a batch is counted after its results have been passed on
        return [[t.text for t in texts] for group in results for texts in group], queue.batches

    alone, _ = asyncio.run(run(*([job] for job in jobs)))
    fresh = [TextsJob(served, job.texts, config, to=job.to) for job in jobs]
    together, n_batches = asyncio.run(run(fresh))
    assert together == alone and n_batches == 1
    assert alone[0] != alone[1] and alone[2] == alone[1][:1]
    assert TranslationJob(served, TEXT, config, to="de").batch_key == TranslationJob(served, TEXT, config).batch_key
