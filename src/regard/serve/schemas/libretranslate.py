"""Requests and responses of LibreTranslate's API."""

from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field

from regard.serve.schemas.base import RequestBody, ResponseBody


def _as_text(value: object) -> str:
    """Return any value as text, as LibreTranslate does; null and the like are empty."""
    return str(value) if value else ""


LenientText = Annotated[str, BeforeValidator(_as_text)]


class DetectRequest(RequestBody):
    """Sent as JSON or as a form. Unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore")

    q: str | list[str]
    """A text or a list of texts"""


class LibreTranslateRequest(DetectRequest):
    """Sent as JSON or as a form. Unknown fields are ignored."""

    source: Annotated[LenientText, Field(min_length=1)]
    """Code of the language, or auto"""
    target: Annotated[LenientText, Field(min_length=1)]
    format: LenientText = "text"
    """text or html"""

    @property
    def texts(self) -> list[str]:
        return [self.q] if isinstance(self.q, str) else self.q


class LibreTranslateResponse(ResponseBody):
    translatedText: str | list[str]
    """A list if the request has a list"""


class LanguageInfo(ResponseBody):
    code: str
    name: str
    targets: list[str]
    """Codes of the languages that texts in this language can be translated to"""


class DetectedLanguage(ResponseBody):
    confidence: float
    language: str
