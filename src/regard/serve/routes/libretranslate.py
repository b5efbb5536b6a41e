"""What LibreTranslate's clients speak: /translate, /languages, /detect, with its own error texts."""

import html
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import ValidationError

from regard.alignment.markup import MarkupTransfer
from regard.pipelines.translator import Translator
from regard.serve.dispatch import Desk
from regard.serve.errors import ApiError
from regard.serve.jobs import TranslateWork
from regard.serve.registry import Served
from regard.text.tags import TaggedText

NAMES = {"en": "English", "fr": "French", "de": "German", "es": "Spanish", "it": "Italian", "pt": "Portuguese"}
"""Of languages that people name; others go by their codes"""


def router(desk: Desk) -> APIRouter:
    routes = APIRouter(tags=["LibreTranslate"])
    translators = desk.registry.of_kind(Translator)

    @routes.get("/languages")
    async def languages() -> list[dict[str, Any]]:
        sources = dict.fromkeys(served.languages[0] for served in translators)
        targets = {code: [s.languages[1] for s in translators if s.languages[0] == code] for code in sources}
        codes = dict.fromkeys(code for served in translators for code in served.languages)
        return [{"code": code, "name": NAMES.get(code, code), "targets": targets.get(code, [])} for code in codes]

    @routes.post("/translate", openapi_extra=_body("q", "source", "target", "format"))
    async def translate(request: Request) -> JSONResponse:
        asked = await _fields(request)
        texts, several = _texts(asked, desk)
        served = _served(translators, str(asked.get("source", "")), str(asked.get("target", "")))
        for text in texts:
            desk.check_text(served, text)
        as_html = asked.get("format", "text") == "html"
        marked = [TaggedText.parse(text) if as_html else TaggedText.untagged(text) for text in texts]
        plain = [html.unescape(each.plain) if as_html else each.plain for each in marked]
        works = [TranslateWork(served, text, (), desk.limits, attention=as_html) for text in plain]
        found = await desk.do(request, works)
        said = [_said(served, m, t) if as_html else t.text for m, t in zip(marked, found, strict=True)]
        return JSONResponse({"translatedText": said if several else said[0]})

    @routes.post("/detect", openapi_extra=_body("q"))
    async def detect(request: Request) -> JSONResponse:
        asked = await _fields(request)
        if not asked.get("q"):
            raise ApiError(400, "Invalid request", "Invalid request: missing q parameter")
        sources = list(dict.fromkeys(served.languages[0] for served in translators))
        if len(sources) != 1:
            raise ApiError(501, "Not implemented", "this server cannot tell languages apart; name the source")
        return JSONResponse([{"confidence": 100.0, "language": sources[0]}])

    @routes.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    return routes


def _body(*names: str) -> dict[str, Any]:
    """What the OpenAPI document says of fields that come as a form or as JSON"""
    fields: dict[str, Any] = {name: {"type": "string"} for name in names}
    fields["q"] = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
    schema = {"type": "object", "properties": fields, "required": [name for name in names if name != "format"]}
    kinds = ("application/json", "application/x-www-form-urlencoded")
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}}


def _said(served: Served, marked: TaggedText, found: Any) -> str:
    """The translation with the markup of its source, as HTML"""
    assert isinstance(served.pipeline, Translator)
    best = found.hypotheses[0]
    escaped = replace(best, text=html.escape(best.text, quote=False))
    return MarkupTransfer(markup=True).carry_over(marked, escaped, served.pipeline).text


async def _fields(request: Request) -> dict[str, Any]:
    """Form or JSON, as the clients send either"""
    kind = request.headers.get("content-type", "").lower()
    try:
        if "json" in kind:
            tree = await request.json()
        elif "form" in kind and "multipart" not in kind:
            tree = dict(await request.form())
        else:
            tree = dict(request.query_params)
    except (ValueError, ValidationError):
        raise ApiError(400, "Invalid request", "Invalid request: the body cannot be read") from None
    if not isinstance(tree, dict):
        raise ApiError(400, "Invalid request", "Invalid request: the body is no object")
    return tree


def _texts(asked: dict[str, Any], desk: Desk) -> tuple[list[str], bool]:
    q: Any = asked.get("q")
    if not q:
        raise ApiError(400, "Invalid request", "Invalid request: missing q parameter")
    for name in ("source", "target"):
        if not asked.get(name):
            raise ApiError(400, "Invalid request", f"Invalid request: missing {name} parameter")
    several = isinstance(q, list)
    texts = q if several else [q]
    if not all(isinstance(text, str) for text in texts):
        raise ApiError(400, "Invalid request", "Invalid request: q must be text, or a list of texts")
    if len(texts) > desk.limits.texts:
        raise ApiError(400, "Invalid request", f"Invalid request: at most {desk.limits.texts} texts at once")
    return texts, several


def _served(translators: Sequence[Served], source: str, target: str) -> Served:
    """`auto` takes the one source that leads to the target"""
    known = {code for served in translators for code in served.languages}
    for code in (source, target):
        if code not in known and code != "auto":
            # LibreTranslate's clients expect the code here; only one that looks like a code is repeated.
            shown = code if code.isascii() and code.isalpha() and len(code) <= 8 else "the language"
            raise ApiError(400, "Invalid request", f"{shown} is not supported")
    fitting = [s for s in translators if s.languages[1] == target and source in (s.languages[0], "auto")]
    if not fitting:
        raise ApiError(400, "Invalid request", "this pair of languages is not supported")
    return fitting[0]
