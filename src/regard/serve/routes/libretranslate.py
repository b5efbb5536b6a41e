"""The API of LibreTranslate with its error messages: /translate, /languages, /detect."""

import html
from collections.abc import Sequence
from dataclasses import replace

from fastapi import APIRouter, Request
from pydantic import ValidationError

from regard.alignment.transfer import MarkupTransfer
from regard.pipelines.translation import Translation
from regard.pipelines.translator import Translator
from regard.serve.dispatch import Dispatcher
from regard.serve.errors import ApiError
from regard.serve.jobs import TranslationJob
from regard.serve.openapi_document import ERRORS, form_or_json
from regard.serve.registry import ServedModel
from regard.serve.schemas.base import Body
from regard.serve.schemas.health import HealthResponse
from regard.serve.schemas.libretranslate import (
    DetectedLanguage,
    DetectRequest,
    LanguageInfo,
    LibreTranslateRequest,
    LibreTranslateResponse,
)
from regard.text.clean import clean
from regard.text.language_names import language_name
from regard.text.markup import TaggedText


def router(dispatcher: Dispatcher) -> APIRouter:
    routes = APIRouter(tags=["LibreTranslate"], responses=ERRORS)
    translators = dispatcher.registry.of_kind(Translator)

    @routes.get("/languages")
    async def languages() -> list[LanguageInfo]:
        """List the languages of all translators."""
        codes = dict.fromkeys(code for served in translators for code in served.languages)
        targets = {code: [s.languages[1] for s in translators if s.languages[0] == code] for code in codes}
        return [LanguageInfo(code=c, name=language_name(c), targets=targets[c]) for c in codes]

    @routes.post("/translate", openapi_extra=form_or_json(LibreTranslateRequest))
    async def translate(request: Request) -> LibreTranslateResponse:
        """Translate one text or a list. With format "html", tags stay at the words that they mark."""
        body = await _read_body(request, LibreTranslateRequest)
        if len(body.texts) > (most := dispatcher.limits.texts):
            raise _invalid(f"at most {most} texts per request")
        served = _find_translator(translators, body.source, body.target)
        for text in body.texts:
            dispatcher.check_translation(served, text)
        is_html = body.format == "html"
        tagged = [TaggedText.parse(clean(text)) if is_html else TaggedText.untagged(text) for text in body.texts]
        plain = [html.unescape(text.plain) if is_html else text.plain for text in tagged]
        config = served.pipeline.decode_config
        jobs = [TranslationJob(served, text, config, attention=is_html) for text in plain]
        translations = await dispatcher.run(request, jobs)
        results = [
            _restore_tags(served.pipeline, text, translation) if is_html else translation.text
            for text, translation in zip(tagged, translations, strict=True)
        ]
        return LibreTranslateResponse(translatedText=results[0] if isinstance(body.q, str) else results)

    @routes.post("/detect", openapi_extra=form_or_json(DetectRequest))
    async def detect(request: Request) -> list[DetectedLanguage]:
        """Return the source language if all translators have the same one."""
        await _read_body(request, DetectRequest)
        sources = list(dict.fromkeys(served.languages[0] for served in translators))
        if not sources:
            raise ApiError(501, "Not implemented", "this server has no translator")
        if len(sources) > 1:
            raise ApiError(501, "Not implemented", "this server cannot detect languages; give the source language")
        return [DetectedLanguage(confidence=100.0, language=sources[0])]

    @routes.get("/health")
    async def health() -> HealthResponse:
        return HealthResponse()

    return routes


def _invalid(reason: str) -> ApiError:
    return ApiError(400, "Invalid request", f"Invalid request: {reason}")


async def _read_body(request: Request, kind: type[Body]) -> Body:
    """Read JSON, a form or a query; LibreTranslate's clients send any of them."""
    content_type = request.headers.get("content-type", "").lower()
    try:
        if "json" in content_type:
            fields = await request.json()
        elif "form" in content_type and "multipart" not in content_type:
            fields = dict(await request.form())
        else:
            fields = dict(request.query_params)
    except ValueError:
        raise _invalid("the body cannot be read") from None
    if not isinstance(fields, dict):
        raise _invalid("the body is not an object")
    if not fields.get("q"):
        raise _invalid("missing q parameter")
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        field = error.errors()[0]["loc"][0]
        raise _invalid("q must be text, or a list of texts" if field == "q" else f"missing {field} parameter") from None


def _find_translator(
    translators: Sequence[ServedModel[Translator]], source: str, target: str
) -> ServedModel[Translator]:
    """Return a translator for these languages; the source `auto` fits any."""
    known = {code for served in translators for code in served.languages}
    for code in (source, target):
        if code not in known and code != "auto":
            # LibreTranslate's clients expect the code here; it is repeated only if it looks like a code.
            shown = code if code.isascii() and code.isalpha() and len(code) <= 8 else "the language"
            raise ApiError(400, "Invalid request", f"{shown} is not supported")
    fitting = [s for s in translators if s.languages[1] == target and source in (s.languages[0], "auto")]
    if not fitting:
        raise ApiError(400, "Invalid request", "this pair of languages is not supported")
    return fitting[0]


def _restore_tags(translator: Translator, tagged: TaggedText, translation: Translation) -> str:
    """Return the translation as HTML with the tags of its source."""
    return MarkupTransfer(markup=True).carry_over(tagged, _escaped(translation), translator).text


def _escaped(translation: Translation) -> Translation:
    """Return the translation with its text as HTML."""
    candidates = tuple(replace(c, text=html.escape(c.text, quote=False)) for c in translation.hypotheses)
    return replace(translation, hypotheses=candidates, sentences=tuple(map(_escaped, translation.sentences)))
