"""Request and response of LibreTranslate's /translate_file."""

from pydantic import ConfigDict, Field

from regard.serve.schemas.base import RequestBody, ResponseBody


class TranslateFileRequest(RequestBody):
    """Sent as a multipart form. Unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore")

    file: str = Field(json_schema_extra={"contentMediaType": "application/octet-stream"})
    """A document whose name ends with .txt, .html, .htm, .docx, .odt, .srt or .epub"""
    source: str
    """Code of the language, or auto"""
    target: str


class TranslatedFileResponse(ResponseBody):
    translatedFileUrl: str
    """Where the translated document can be downloaded for a while"""
