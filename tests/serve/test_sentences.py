"""The sentences of a text: those that /v1/translate translates, and what a trace of one of them writes."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from starlette.testclient import TestClient

from regard.bundle import Bundle
from regard.search.decode import DecodeConfig
from regard.text.seen_words import SeenWords
from tests.serve.conftest import make_client
from tests.serve.models import STACK, save_toy

TEXT = "  A b c! D c b a?\n\n1. B A D\n...\n(c) Zebra b.\r\n"


@pytest.fixture(scope="module")
def client(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A client of a server with a language model, and a translator that knows the words of its training data"""
    folder = tmp_path_factory.mktemp("sentences") / "toy"
    replace(Bundle.load(models["toy"]), words=SeenWords.count(["a b c d", "d c b a"])).save(folder, "toy")
    with make_client({"toy": folder, "text": models["text"]}) as client:
        yield client


def ask(client: TestClient, path: str, **body: Any) -> Any:
    response = client.post(f"/v1/{path}", json={"model": "toy", **body})
    assert response.status_code == 200, response.text
    return response.json()


def test_sentences_are_those_of_the_translation(client: TestClient) -> None:
    split = ask(client, "sentences", text=TEXT)
    whole = ask(client, "translate", text=TEXT)
    assert "".join(each["before"] + each["source"] for each in split["sentences"]) + split["after"] == TEXT
    assert len(split["sentences"]) == len(whole["sentences"]) == 4
    for own, translated in zip(split["sentences"], whole["sentences"], strict=True):
        assert (own["source"], own["read"]) == (translated["source"], translated["read"])
    assert [word for each in split["sentences"] for word in each["unknown"]] == whole["unknown"] != []


def test_a_trace_writes_what_the_translation_of_the_sentence_is(client: TestClient) -> None:
    whole = ask(client, "translate", text=TEXT)["sentences"]
    traces = [ask(client, "trace", text=each["read"], source=each["source"]) for each in whole]
    assert [trace["written"] for trace in traces] == [each["text"] for each in whole]
    assert any(trace["written"] != trace["text"] for trace in traces), "case or punctuation was put back"
    assert ask(client, "trace", text="a b")["written"] is None


def test_lines_are_translated_as_sentences_of_a_text_are(client: TestClient) -> None:
    """So the page can translate the sentences that it does not trace, and knows which is which."""
    whole = ask(client, "translate", text=TEXT)["sentences"]
    lines = ask(client, "translate", text="\n".join(each["source"] for each in whole))
    assert lines["text"].split("\n") == [each["text"] for each in whole]


def test_only_translators_read_sentences(client: TestClient) -> None:
    response = client.post("/v1/sentences", json={"model": "text", "text": "a b"})
    assert response.status_code in (404, 422) and "detail" in response.json()


def test_a_trace_has_no_empty_output_where_a_translation_has_none(tmp_path: Path) -> None:
    """A model that likes to end at once: both search again, for an output of at least one token."""
    folder = save_toy(tmp_path / "toy", STACK, seed=3)
    ends, own = replace(Bundle.load(folder), decode=DecodeConfig(beam=1)), tmp_path / "ends"
    with torch.no_grad():
        ends.model.output.weight.div_(4.0)
    ends.save(own, "ends")
    texts = ["a b", "c d e", "a", "p o n"]
    with make_client({"toy": own}) as client:
        plain = [ask(client, "trace", text=text, prefix=[], samples=1, top_k=1, temperature=1.0) for text in texts]
        assert "" in [trace["text"] for trace in plain], "greedy search alone finds empty outputs"
        for text in texts:
            trace = ask(client, "trace", text=text)
            assert trace["text"] == ask(client, "translate", text=text)["text"] != ""
            assert trace["hypotheses"][0]["text"] == trace["text"] and len(trace["target"]) > 1
