"""/translate_file of LibreTranslate's API: a document in, the address of its translation out."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fastapi import APIRouter, Request
from starlette.datastructures import UploadFile

from regard.documents.document import Document
from regard.documents.errors import DocumentError
from regard.documents.kinds import is_document, read_document
from regard.documents.limits import DocumentLimits
from regard.pipelines.translator import Translator
from regard.serve.batch_queue import JobTimeout, QueueFull
from regard.serve.dispatch import Dispatcher
from regard.serve.errors import ApiError
from regard.serve.file_store import FileStore, translated_name
from regard.serve.form import open_form
from regard.serve.language_pairs import LanguagePairs
from regard.serve.openapi_document import LIBRETRANSLATE_ERRORS, DownloadResponse, multipart_form
from regard.serve.registry import ServedModel
from regard.serve.request_fields import invalid_request
from regard.serve.schemas.translate_file import TranslatedFileResponse, TranslateFileRequest
from regard.serve.tagged_texts import translate_tagged
from regard.text.markup import TaggedText

_PORTION_CHARS = 4_000  # of a document that are in the queue at a time
_SAMPLE_CHARS = 10_000  # by which a language is detected
_TRIES = 20
_RETRY_SECONDS = 1.0
_FORM_FIELDS = 16


class Upload(NamedTuple):
    name: str
    content: bytes
    source: str
    target: str


def router(dispatcher: Dispatcher, pairs: LanguagePairs, store: FileStore) -> APIRouter:
    routes = APIRouter(tags=["LibreTranslate"], responses=LIBRETRANSLATE_ERRORS)

    @routes.post("/translate_file", openapi_extra=multipart_form(TranslateFileRequest))
    async def translate_file(request: Request) -> TranslatedFileResponse:
        """Translate a document (txt, html, docx, odt, srt, epub) and return where it can be downloaded."""
        upload = await _read_upload(request)
        pairs.check(upload.source, upload.target)
        dispatcher.check_room()
        try:
            async with asyncio.timeout(dispatcher.limits.file_seconds):
                content = await _translate(dispatcher, pairs, request, upload)
        except TimeoutError:
            raise JobTimeout from None
        name = translated_name(upload.name, upload.target)
        stored_name = store.add(name, content, request.state.client)
        return TranslatedFileResponse(translatedFileUrl=str(request.url_for("download_file", name=stored_name)))

    @routes.get("/download_file/{name}", response_class=DownloadResponse)
    async def download_file(name: str) -> DownloadResponse:
        """Download a translated document."""
        if (file := store.get(name)) is None:
            raise ApiError(404, "Not found", "there is no such file, or it has expired")
        headers = {"content-disposition": f'attachment; filename="{file.name}"'}
        return DownloadResponse(file.content, headers=headers)

    return routes


async def _read_upload(request: Request) -> Upload:
    content_type = request.headers.get("content-type", "")
    try:
        async with open_form(content_type, await request.body(), max_files=1, max_fields=_FORM_FIELDS) as form:
            file, source, target = (form.get(name) for name in ("file", "source", "target"))
            if not isinstance(file, UploadFile):
                raise invalid_request("missing file parameter")
            if not source or not isinstance(source, str):
                raise invalid_request("missing source parameter")
            if not target or not isinstance(target, str):
                raise invalid_request("missing target parameter")
            if not file.filename:
                raise invalid_request("empty file")
            if not is_document(file.filename):
                raise invalid_request("file format not supported")
            return Upload(file.filename, await file.read(), source, target)
    except ValueError:
        raise invalid_request("the body cannot be read") from None


async def _translate(dispatcher: Dispatcher, pairs: LanguagePairs, request: Request, upload: Upload) -> bytes:
    limits = dispatcher.limits
    document, segments = await asyncio.to_thread(
        _read, upload, DocumentLimits(bytes=limits.file, unpacked=limits.file_unpacked, markup=limits.file)
    )
    if (n_chars := sum(len(segment.plain) for segment in segments)) > limits.file_chars:
        raise invalid_request(f"the document has {n_chars:,} characters, more than the limit of {limits.file_chars:,}")
    chosen = await pairs.choose(upload.source, upload.target, list(_sample(segments)))
    with_letters = [segment for segment in segments if any(map(str.isalpha, segment.plain))]
    await dispatcher.check_sentences(chosen.served, [segment.plain for segment in with_letters], to=upload.target)
    translations = {segment: segment.text for segment in segments}
    for portion in _portions(with_letters):
        texts = await _translate_portion(dispatcher, request, chosen.served, portion, upload.target)
        translations |= zip(portion, texts, strict=True)
    return await asyncio.to_thread(lambda: document.write([translations[s] for s in document.segments]))


def _read(upload: Upload, limits: DocumentLimits) -> tuple[Document, list[TaggedText]]:
    """Return a document and its segments, each once."""
    try:
        document = read_document(upload.content, upload.name, upload.target, limits)
    except DocumentError as error:
        raise invalid_request(f"the file {error}") from None
    return document, list(dict.fromkeys(document.segments))


def _sample(segments: Sequence[TaggedText]) -> Iterator[str]:
    """Yield the beginning of the text."""
    n_chars = 0
    for segment in segments:
        yield segment.plain[: _SAMPLE_CHARS - n_chars]
        n_chars += len(segment.plain)
        if n_chars >= _SAMPLE_CHARS:
            return


def _portions(segments: Sequence[TaggedText]) -> Iterator[list[TaggedText]]:
    portion, n_chars = list[TaggedText](), 0
    for segment in segments:
        if portion and n_chars + len(segment.plain) > _PORTION_CHARS:
            yield portion
            portion, n_chars = [], 0
        portion.append(segment)
        n_chars += len(segment.plain)
    if portion:
        yield portion


async def _translate_portion(
    dispatcher: Dispatcher, request: Request, served: ServedModel[Translator], portion: Sequence[TaggedText], to: str
) -> list[str]:
    """Translate a portion of a document. While the queue is full, wait: a document need not be begun anew."""
    for _ in range(_TRIES - 1):
        try:
            return await translate_tagged(dispatcher, request, served, portion, to)
        except QueueFull:
            await asyncio.sleep(_RETRY_SECONDS)
    return await translate_tagged(dispatcher, request, served, portion, to)
