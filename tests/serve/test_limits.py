"""The limits given to make_app decide what is accepted, and the OpenAPI document shows them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from regard.serve.app import make_app
from regard.serve.guard import Access
from regard.serve.limits import Limits
from regard.serve.registry import Registry
from tests.serve.conftest import make_client

SMALL = Limits(chars=10, beam=2, tokens=4, texts=2, q_texts=2, body=400)
LARGE = Limits(chars=30_000, beam=20, tokens=700, q_texts=200, body=300_000)
PAIR = {"source": "src", "target": "tgt"}
LONG = "a b c d e f g"  # 13 characters
MANY = "abcdefghijklmnopqrstuvwxyz"


@pytest.fixture(scope="module")
def clients(models: dict[str, Path]) -> Iterator[dict[str, TestClient]]:
    """Clients of servers with small, default and large limits"""
    folders = {name: models[name] for name in ("toy", "text")}
    with (
        make_client(folders, SMALL) as small,
        make_client(folders) as default,
        make_client(folders, LARGE) as large,
    ):
        yield {"small": small, "default": default, "large": large}


def status(client: TestClient, path: str, body: dict[str, Any]) -> int:
    return client.post(path, json=body).status_code


@pytest.mark.parametrize(
    ("path", "body", "refused"),
    [
        ("/v1/tokenize", {"model": "toy", "text": LONG}, 422),
        ("/v1/tokenize", {"model": "toy", "text": "a b c d e"}, 413),
        ("/v1/sentences", {"model": "toy", "text": LONG}, 422),
        ("/v1/sentences", {"model": "toy", "text": "a b c d e"}, 413),
        ("/v1/trace", {"model": "toy", "text": "a", "source": LONG}, 422),
        ("/v1/translate", {"model": "toy", "text": LONG}, 422),
        ("/v1/translate", {"model": "toy", "text": "a b c d e"}, 413),
        ("/v1/translate", {"model": "toy", "text": "a", "prefix": LONG}, 422),
        ("/v1/translate", {"model": "toy", "text": "a", "prefix": "a b c d e"}, 413),
        ("/v1/translate", {"model": "toy", "text": "a", "beam": 3}, 422),
        ("/v1/translate", {"model": "toy", "text": "a", "n_best": 3}, 422),
        ("/v1/translate", {"model": "toy", "text": "a", "max_len": 5}, 422),
        ("/v1/trace", {"model": "toy", "text": LONG}, 422),
        ("/v1/trace", {"model": "toy", "text": "a", "beam": 3}, 422),
        ("/v1/trace", {"model": "toy", "text": "a", "prefix": [7] * 5}, 422),
        ("/v1/trace", {"model": "toy", "text": "a", "target": [7] * 5}, 422),
        ("/v1/trace", {"model": "toy", "text": "a", "mask_src": [7] * 5}, 422),
        ("/v1/trace", {"model": "toy", "text": "a", "hypothesis": 2}, 422),
        ("/v1/next", {"model": "toy", "text": LONG}, 422),
        ("/v1/next", {"model": "toy", "text": "a", "prefix": [7] * 5}, 422),
        ("/v1/completions", {"model": "text", "prompt": LONG}, 400),
        ("/v1/completions", {"model": "text", "prompt": "a", "max_tokens": 5}, 400),
        ("/v1/chat/completions", {"model": "toy", "messages": [{"role": "user", "content": LONG}]}, 400),
        (
            "/v1/chat/completions",
            {"model": "toy", "messages": [{"role": "user", "content": "a"}], "max_completion_tokens": 5},
            400,
        ),
        ("/translate", {"q": LONG, **PAIR}, 400),
        ("/translate", {"q": "a b c d e", **PAIR}, 400),
        ("/translate", {"q": ["a"] * 3, **PAIR}, 400),
    ],
)
def test_smaller_limits_refuse_what_the_default_accepts(
    clients: dict[str, TestClient], path: str, body: dict[str, Any], refused: int
) -> None:
    assert status(clients["small"], path, body) == refused
    assert status(clients["default"], path, body) == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/tokenize", {"model": "toy", "text": MANY * 1000}),
        ("/v1/tokenize", {"model": "toy", "text": "a " * 600}),
        ("/v1/translate", {"model": "toy", "text": "a", "beam": 20}),
        ("/v1/translate", {"model": "toy", "text": "a", "max_len": 600}),
        ("/v1/trace", {"model": "toy", "text": "a", "hypothesis": 17}),
        ("/v1/next", {"model": "toy", "text": "a", "prefix": [7] * 600}),
        ("/v1/completions", {"model": "text", "prompt": "", "max_tokens": 600, "stop": "a"}),
        ("/v1/chat/completions", {"model": "toy", "messages": [{"role": "user", "content": MANY * 1000}]}),
        ("/translate", {"q": ["a"] * 150, **PAIR}),
        ("/translate", {"q": MANY * 1000, **PAIR}),
    ],
)
def test_larger_limits_accept_what_the_default_refuses(
    clients: dict[str, TestClient], path: str, body: dict[str, Any]
) -> None:
    assert status(clients["default"], path, body) in (400, 413, 422)
    assert status(clients["large"], path, body) == 200


def test_the_size_of_a_body_is_limited(clients: dict[str, TestClient]) -> None:
    for limits, expected in (("small", 413), ("default", 422), ("large", 422)):
        assert status(clients[limits], "/v1/translate", {"unknown": "x" * SMALL.body}) == expected


def test_the_document_shows_the_limits_of_the_server() -> None:
    for limits in (SMALL, Limits(), LARGE):
        document = make_app(Registry([]), Access(frozenset()), limits).openapi()
        schemas = document["components"]["schemas"]
        translate = schemas["TranslateRequest"]["properties"]
        assert translate["text"]["maxLength"] == limits.chars
        assert {"maximum": limits.beam, "minimum": 1, "type": "integer"} in translate["beam"]["anyOf"]
        assert schemas["TraceRequest"]["properties"]["prefix"]["maxItems"] == limits.tokens
        content = schemas["ChatMessage"]["properties"]["content"]["anyOf"]
        assert {"maxLength": limits.chars, "type": "string"} in content
