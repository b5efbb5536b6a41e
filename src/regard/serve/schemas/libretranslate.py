"""Requests and responses of LibreTranslate's API."""

from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field

from regard.serve.language_detector import LanguageGuess
from regard.serve.schemas.base import RequestBody, ResponseBody
from regard.text.language_names import language_name


def _as_text(value: object) -> str:
    """Return any value as text, as LibreTranslate does; null and the like are empty."""
    return str(value) if value else ""


def _as_count(value: object) -> int:
    """Return a number that may be written as text; nothing and negative numbers are 0."""
    if not isinstance(value, int | float | str | None):
        raise ValueError
    return max(0, int(value or 0))


LenientText = Annotated[str, BeforeValidator(_as_text)]
RequiredText = Annotated[LenientText, Field(min_length=1)]


class LibreTranslateFields(RequestBody):
    """Sent as JSON, as a form or in the query. Unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore")

    api_key: LenientText = ""
    """The server's token, unless the request has it as a bearer token"""


class DetectRequest(LibreTranslateFields):
    """Sent as JSON, as a form or in the query. Unknown fields are ignored."""

    q: Annotated[str, Field(min_length=1)] | Annotated[list[str], Field(min_length=1)]
    """A text or a list of texts"""

    @property
    def texts(self) -> list[str]:
        return [self.q] if isinstance(self.q, str) else self.q


class LibreTranslateRequest(DetectRequest):
    """Sent as JSON, as a form or in the query. Unknown fields are ignored."""

    source: RequiredText
    """Code of the language, or auto"""
    target: RequiredText
    format: LenientText = "text"
    """text or html"""
    alternatives: Annotated[int, BeforeValidator(_as_count)] = 0
    """How many other translations to return at most"""


class SuggestRequest(LibreTranslateFields):
    """Sent as JSON, as a form or in the query. Unknown fields are ignored."""

    q: RequiredText
    """The text"""
    s: RequiredText
    """A better translation"""
    source: RequiredText
    target: RequiredText


class DetectedLanguage(ResponseBody):
    confidence: float
    """From 0 to 100, of all languages that py3langid knows"""
    language: str

    @classmethod
    def of(cls, guess: LanguageGuess) -> "DetectedLanguage":
        return cls(confidence=round(100 * guess.probability, 1), language=guess.language)


class LibreTranslateResponse(ResponseBody):
    model_config = ConfigDict(json_schema_serialization_defaults_required=False)

    translatedText: str | list[str]
    """A list if the request has a list"""
    alternatives: list[str] | list[list[str]] | None = None
    """Other translations, if requested; a list per text if the request has a list"""
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = None
    """If the source language of the request is auto; a list if the request has a list"""


class LanguageInfo(ResponseBody):
    code: str
    name: str
    targets: list[str]
    """Codes of the languages that texts in this language can be translated to"""


class LanguageChoice(ResponseBody):
    code: str
    name: str

    @classmethod
    def of(cls, code: str) -> "LanguageChoice":
        return cls(code=code, name=language_name(code))


class FrontendLanguages(ResponseBody):
    source: LanguageChoice
    target: LanguageChoice


class FrontendSettings(ResponseBody):
    charLimit: int
    """Characters of all texts of a request"""
    textLimit: int
    """Texts of a request"""
    alternativesLimit: int
    frontendTimeout: int = 500
    """Milliseconds that a page waits after the last key before it translates"""
    apiKeys: bool
    """Whether the server has a token"""
    keyRequired: bool
    suggestions: bool
    """Whether /suggest stores suggestions"""
    filesTranslation: bool
    supportedFilesFormat: list[str]
    """File name extensions"""
    language: FrontendLanguages


class SuggestResponse(ResponseBody):
    success: bool = True
