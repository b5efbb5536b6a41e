"""The API of LibreTranslate with its error messages: /translate, /detect, /languages, /suggest and its settings."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request

from regard.documents.kinds import EXTENSIONS
from regard.pipelines.translation import Translation
from regard.pipelines.translator import Translator
from regard.serve.dispatch import Dispatcher
from regard.serve.errors import ApiError
from regard.serve.jobs import TextsJob
from regard.serve.language_pairs import AUTO, ChosenTranslator, LanguagePairs
from regard.serve.openapi_document import LIBRETRANSLATE_ERRORS, form_or_json
from regard.serve.registry import ServedModel
from regard.serve.request_fields import invalid_request, read_fields
from regard.serve.schemas import libretranslate as schemas
from regard.serve.schemas.health import HealthResponse
from regard.serve.suggestion_file import SuggestionFile, SuggestionFileFull
from regard.serve.tagged_texts import translate_tagged
from regard.text.html_document import HtmlDocument
from regard.text.language_names import language_name

_FORMATS = ("text", "html")
_log = logging.getLogger(__name__)


def router(
    dispatcher: Dispatcher, pairs: LanguagePairs, suggestions: SuggestionFile | None = None, has_token: bool = False
) -> APIRouter:
    routes = APIRouter(tags=["LibreTranslate"], responses=LIBRETRANSLATE_ERRORS)
    _add_translation(routes, dispatcher, pairs)
    _add_description(routes, dispatcher, pairs, suggestions is not None, has_token)

    @routes.post("/suggest", openapi_extra=form_or_json(schemas.SuggestRequest))
    async def suggest(request: Request) -> schemas.SuggestResponse:
        """Store a better translation, if the server was started with --suggestions."""
        if suggestions is None:
            raise ApiError(403, "Forbidden", "Suggestions are disabled on this server.")
        body = await read_fields(request, schemas.SuggestRequest)
        _check_chars(dispatcher, [body.q, body.s])
        try:
            await asyncio.to_thread(suggestions.append, body.model_dump(exclude={"api_key"}))
        except SuggestionFileFull:
            raise ApiError(403, "Forbidden", "This server takes no more suggestions.") from None
        except OSError as error:
            _log.error("a suggestion was not stored in %s: %s", suggestions.path, error.strerror)
            raise ApiError(503, "Service unavailable", "The suggestion cannot be stored now.") from None
        return schemas.SuggestResponse()

    return routes


def _add_translation(routes: APIRouter, dispatcher: Dispatcher, pairs: LanguagePairs) -> None:
    @routes.post(
        "/translate", response_model_exclude_none=True, openapi_extra=form_or_json(schemas.LibreTranslateRequest)
    )
    async def translate(request: Request) -> schemas.LibreTranslateResponse:
        """Translate one text or a list. With format "html", tags stay at the words that they mark."""
        body = await read_fields(request, schemas.LibreTranslateRequest)
        _check_request(dispatcher, body)
        dispatcher.check_room()
        answer = _translate_html if body.format == "html" else _translate_text
        return await answer(dispatcher, pairs, request, body)

    @routes.post("/detect", openapi_extra=form_or_json(schemas.DetectRequest))
    async def detect(request: Request) -> list[schemas.DetectedLanguage]:
        """Rank the source languages of all translators by the probability that a text is in that language."""
        body = await read_fields(request, schemas.DetectRequest)
        _check_chars(dispatcher, body.texts)
        if not pairs.sources:
            raise ApiError(400, "Invalid request", "this server has no translator")
        guesses = await pairs.detect(body.texts, pairs.sources)
        detected = [schemas.DetectedLanguage.of(guess) for guess in guesses]
        return [detected[0], *(each for each in detected[1:] if each.confidence > 0)]


def _add_description(
    routes: APIRouter, dispatcher: Dispatcher, pairs: LanguagePairs, has_suggestions: bool, has_token: bool
) -> None:
    limits = dispatcher.limits
    source = schemas.LanguageChoice(code=AUTO, name="Auto Detect")
    target = next((target for _, target in pairs.translators), AUTO)
    settings = schemas.FrontendSettings(
        charLimit=limits.chars,
        textLimit=limits.q_texts,
        alternativesLimit=limits.beam - 1,
        apiKeys=has_token,
        keyRequired=has_token,
        suggestions=has_suggestions,
        filesTranslation=True,
        supportedFilesFormat=list(EXTENSIONS),
        language=schemas.FrontendLanguages(source=source, target=schemas.LanguageChoice.of(target)),
    )

    @routes.get("/languages")
    async def languages() -> list[schemas.LanguageInfo]:
        """List the languages of all translators."""
        return [
            schemas.LanguageInfo(code=code, name=language_name(code), targets=pairs.targets(code))
            for code in pairs.languages
        ]

    @routes.get("/frontend/settings")
    async def frontend_settings() -> schemas.FrontendSettings:
        """What this server allows"""
        return settings

    @routes.get("/spec", include_in_schema=False)
    async def spec(request: Request) -> dict[str, Any]:
        """The OpenAPI document of the server"""
        return request.app.openapi()

    @routes.get("/health")
    async def health() -> HealthResponse:
        return HealthResponse()


def _check_request(dispatcher: Dispatcher, body: schemas.LibreTranslateRequest) -> None:
    if body.alternatives > (most := dispatcher.limits.beam - 1):
        raise invalid_request(f"alternatives parameter must be <= {most}")
    if len(body.texts) > (most := dispatcher.limits.q_texts):
        raise invalid_request(f"request ({len(body.texts)}) exceeds text limit ({most})")
    _check_chars(dispatcher, body.texts)
    if body.format and body.format not in _FORMATS:
        shown = body.format if body.format.isascii() and body.format.isalnum() and len(body.format) <= 16 else "this"
        raise ApiError(400, "Invalid request", f"{shown} format is not supported")


def _check_chars(dispatcher: Dispatcher, texts: Sequence[str]) -> None:
    if (n_chars := sum(map(len, texts))) > (most := dispatcher.limits.chars):
        raise invalid_request(f"request ({n_chars}) exceeds text limit ({most})")


async def _translate_text(
    dispatcher: Dispatcher, pairs: LanguagePairs, request: Request, body: schemas.LibreTranslateRequest
) -> schemas.LibreTranslateResponse:
    chosen = await pairs.choose(body.source, body.target, body.texts)
    await dispatcher.check_translations(chosen.served, body.texts, body.target)
    job = _text_job(chosen.served, body)
    [translations] = await dispatcher.run(request, [job])
    return _response(body, chosen, [t.text for t in translations], [_alternatives(t) for t in translations])


def _text_job(served: ServedModel[Translator], body: schemas.LibreTranslateRequest) -> TextsJob:
    config = served.pipeline.decode_config
    if body.alternatives:
        n_best = body.alternatives + 1
        config = config.model_copy(update={"n_best": n_best, "beam": max(config.beam, n_best), "sampling": None})
    return TextsJob(served, tuple(body.texts), config, to=body.target)


def _alternatives(translation: Translation) -> list[str]:
    """Return the other translations, each once."""
    texts = dict.fromkeys(candidate.text for candidate in translation.hypotheses)
    return [text for text in texts if text != translation.text]


async def _translate_html(
    dispatcher: Dispatcher, pairs: LanguagePairs, request: Request, body: schemas.LibreTranslateRequest
) -> schemas.LibreTranslateResponse:
    """Like LibreTranslate, return no alternatives for HTML."""
    documents = await asyncio.to_thread(lambda: [HtmlDocument.parse(text) for text in body.texts])
    texts = [text for document in documents for text in document.texts]
    plain = [text.plain for text in texts]
    chosen = await pairs.choose(body.source, body.target, plain)
    await dispatcher.check_translations(chosen.served, plain, body.target)
    translated = iter(await translate_tagged(dispatcher, request, chosen.served, texts, body.target))
    results = [document.join([next(translated) for _ in document.texts]) for document in documents]
    return _response(body, chosen, results, [[] for _ in results])


def _response(
    body: schemas.LibreTranslateRequest,
    chosen: ChosenTranslator,
    texts: Sequence[str],
    alternatives: Sequence[list[str]],
) -> schemas.LibreTranslateResponse:
    """Return the response for one text or, if the request has a list, for several."""
    detected = None if chosen.detected is None else schemas.DetectedLanguage.of(chosen.detected)
    if isinstance(body.q, str):
        return schemas.LibreTranslateResponse(
            translatedText=texts[0],
            alternatives=alternatives[0] if body.alternatives else None,
            detectedLanguage=detected,
        )
    return schemas.LibreTranslateResponse(
        translatedText=list(texts),
        alternatives=list(alternatives) if body.alternatives else None,
        detectedLanguage=[detected] * len(texts) if detected else None,
    )
