"""The built page in src/regard/serve/static."""

import gzip
import re
import subprocess
import sys
from pathlib import Path

from starlette.testclient import TestClient

from regard.serve.app import STATIC

ROOT = Path(__file__).parents[2]


def test_page_is_at_most_120_kib_compressed() -> None:
    files = [path for path in STATIC.rglob("*") if path.suffix in (".js", ".css", ".html", ".svg")]
    assert files and sum(len(gzip.compress(path.read_bytes())) for path in files) <= 120 * 1024


def test_page_was_built_from_the_current_sources() -> None:
    result = subprocess.run([sys.executable, ROOT / "web" / "manifest.py", "check"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_files_are_sent_compressed_and_cached(client: TestClient) -> None:
    for path in (path for path in STATIC.rglob("*") if path.suffix in (".js", ".css", ".html", ".svg")):
        name = path.relative_to(STATIC).as_posix()
        address = "/" if name == "index.html" else f"/{name}"
        plain = client.get(address, headers={"accept-encoding": "identity"})
        assert plain.content == path.read_bytes() and "content-encoding" not in plain.headers
        packed = client.get(address, headers={"accept-encoding": "gzip"})
        assert packed.content == plain.content and packed.headers["content-encoding"] == "gzip"
        assert int(packed.headers["content-length"]) < len(plain.content)
        assert packed.headers["cache-control"] == ("max-age=31536000, immutable" if "/" in name else "no-cache")
        again = client.get(address, headers={"if-none-match": plain.headers["etag"]})
        assert again.status_code == 304 and not again.content
    assert client.get("/assets/none.js").status_code == client.get("/assets/../app.py").status_code == 404
    assert client.get("/v1/models").headers["cache-control"] == "no-store"


def test_page_has_no_inline_script_and_names_no_other_host() -> None:
    page = (STATIC / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)", page) and "//" not in page.replace("</", "")
    for path in STATIC.rglob("*.js"):
        hosts = set(re.findall(r"https?://([^/\"'`\s]+)", path.read_text()))
        assert hosts <= {"www.w3.org", "svelte.dev"}, hosts  # XML namespaces, and links in Svelte's error messages
