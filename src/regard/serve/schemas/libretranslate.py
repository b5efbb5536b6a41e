"""Requests and responses of LibreTranslate's API."""

from typing import Annotated

from pydantic import BeforeValidator, ConfigDict

from regard.serve.schemas.base import RequestBody, ResponseBody


def _as_text(value: object) -> str:
    """Return any value as text, as LibreTranslate does; what is missing is empty."""
    return str(value) if value else ""


LenientText = Annotated[str, BeforeValidator(_as_text)]


class LibreTranslateRequest(RequestBody):
    """Sent as JSON or as a form. Fields that are not known here are ignored."""

    model_config = ConfigDict(extra="ignore")

    q: str | list[str] = ""
    source: LenientText = ""
    target: LenientText = ""
    format: LenientText = "text"

    @property
    def texts(self) -> list[str]:
        return [self.q] if isinstance(self.q, str) else self.q


class LibreTranslateResponse(ResponseBody):
    translatedText: str | list[str]
    """A list if the request had a list"""


class LanguageInfo(ResponseBody):
    code: str
    name: str
    targets: list[str]
    """Codes of the languages that texts in this language can be translated to"""


class DetectedLanguage(ResponseBody):
    confidence: float
    language: str
