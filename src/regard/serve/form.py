"""Reads forms in memory: the server needs no folder for temporary files, and leaves no document on the disk."""

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from starlette.datastructures import FormData, Headers
from starlette.formparsers import FormParser, MultiPartException, MultiPartParser

logging.getLogger("python_multipart").setLevel(logging.ERROR)  # a broken form is told to the client, not to the log


class InMemoryParser(MultiPartParser):
    spool_max_size = 0  # a file of any size stays in memory; the size of the body is limited before


@asynccontextmanager
async def open_form(
    content_type: str, body: bytes, max_files: int = 1000, max_fields: int = 1000
) -> AsyncIterator[FormData]:
    """Yield the fields of a form; none if the content type is not that of a form. A broken form is a ValueError."""
    kind = content_type.partition(";")[0].strip().lower()
    headers = Headers({"content-type": content_type})
    form = FormData()
    try:
        if kind == "multipart/form-data":
            form = await InMemoryParser(headers, _stream(body), max_files=max_files, max_fields=max_fields).parse()
        elif kind == "application/x-www-form-urlencoded":
            form = await FormParser(headers, _stream(body), max_fields=max_fields).parse()
    except (MultiPartException, KeyError):
        raise ValueError("the form is broken") from None
    try:
        yield form
    finally:
        await form.close()


async def _stream(body: bytes) -> AsyncGenerator[bytes, None]:
    """Yield the body and an empty end, as a request does."""
    yield body
    yield b""
