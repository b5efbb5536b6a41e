"""The OpenAPI document: it describes all bodies, and the copy in web/ from which types are generated is current."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from regard.serve.app import make_app
from regard.serve.guard import Access
from regard.serve.registry import Registry

ROOT = Path(__file__).parents[2]
SCHEMA = "#/components/schemas/"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return make_app(Registry([]), Access(frozenset())).openapi()


def references(tree: object) -> set[str]:
    """The names of all schemas that a part of the document refers to"""
    if isinstance(tree, dict):
        own = {tree["$ref"].removeprefix(SCHEMA)} if "$ref" in tree else set()
        return own.union(*(references(value) for value in tree.values()))
    return set().union(*(references(value) for value in tree)) if isinstance(tree, list) else set()


def test_every_json_response_and_event_is_described(document: dict[str, Any]) -> None:
    for path, operations in document["paths"].items():
        for operation in operations.values():
            for status, response in operation["responses"].items():
                for media_type, content in response["content"].items():
                    if "json" in media_type or "event" in media_type:
                        assert references(content), (path, status, media_type)
    streamed = {
        "/v1/translate": "ProgressEvent",
        "/v1/completions": "CompletionChunk",
        "/v1/chat/completions": "ChatChunk",
    }
    for path, event in streamed.items():
        content = document["paths"][path]["post"]["responses"]["200"]["content"]
        assert event in references(content["text/event-stream"])


def test_every_referenced_schema_exists_and_has_fields(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    assert references(document) <= set(schemas)
    for name, schema in schemas.items():
        assert name == "EmptyDelta" or schema["properties"], name


def test_response_fields_are_required(document: dict[str, Any]) -> None:
    """Otherwise the page would have to handle fields that the server always sends as missing."""
    schemas = document["components"]["schemas"]
    requests = {name for name in schemas if name.endswith("Request")}
    requests |= set().union(*(references(schemas[name]) for name in list(requests)))
    requests |= set().union(*(references(schemas[name]) for name in list(requests)))
    optional = {"LibreTranslateResponse"}  # LibreTranslate leaves out what was not requested
    for name, schema in schemas.items():
        if name not in requests | optional and schema["properties"]:
            assert set(schema["required"]) == set(schema["properties"]), name


def test_the_server_sends_the_document(client: TestClient) -> None:
    response = client.get("/openapi.json")
    assert response.status_code == 200 and "TraceResponse" in response.json()["components"]["schemas"]


def test_the_document_in_web_is_current() -> None:
    """If this fails: `make types`"""
    result = subprocess.run([sys.executable, ROOT / "web" / "openapi.py", "check"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_types_of_the_page_are_generated_ones() -> None:
    """types.ts only gives names to schemas of the document, and all of them are in the generated file."""
    types = (ROOT / "web" / "src" / "api" / "types.ts").read_text(encoding="utf-8")
    generated = (ROOT / "web" / "src" / "api" / "schema.d.ts").read_text(encoding="utf-8")
    assert "interface" not in types
    names = re.findall(r'Schemas\["(\w+)"\]', types)
    assert len(names) >= 15
    for name in names:
        assert re.search(rf"^ {{8}}{name}: {{", generated, re.MULTILINE), name
