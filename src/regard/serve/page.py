"""The files of the web page, which are sent compressed and cached by browsers."""

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

_FOR_EVER = "max-age=31536000, immutable"  # the name of the file has a hash of its content
_ASK_FIRST = "no-cache"  # a browser may keep the file, but asks whether it is still the same
_SENT = (".html", ".svg", ".js", ".css")


@dataclass(frozen=True)
class PageFile:
    """A file of the page, in memory."""

    content: bytes
    compressed: bytes
    headers: dict[str, str]

    @classmethod
    def read(cls, path: Path, cache_control: str) -> "PageFile":
        content = path.read_bytes()
        media_type, _ = mimetypes.guess_type(path.name)
        headers = {
            "content-type": f"{media_type}; charset=utf-8",
            "cache-control": cache_control,
            "etag": f'"{hashlib.sha256(content).hexdigest()[:32]}"',
            "vary": "accept-encoding",
        }
        return cls(content, gzip.compress(content, mtime=0), headers)

    async def respond(self, request: Request) -> Response:
        """Send the file, compressed if the client accepts that, or only say that it has not changed."""
        if self.headers["etag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=self.headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(self.compressed, headers={**self.headers, "content-encoding": "gzip"})
        return Response(self.content, headers=self.headers)


def read_page(folder: Path) -> dict[str, PageFile]:
    """Return the files of the built page by their paths in addresses."""
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix in _SENT:
            name = path.relative_to(folder).as_posix()
            in_assets = name.startswith("assets/")
            route = "/" if name == "index.html" else f"/{name}"
            files[route] = PageFile.read(path, _FOR_EVER if in_assets else _ASK_FIRST)
    return files
