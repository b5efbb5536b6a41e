"""The built page in src/regard/serve/static."""

import gzip
import re
import subprocess
import sys
from pathlib import Path

from regard.serve.app import STATIC

ROOT = Path(__file__).parents[2]


def test_page_is_at_most_120_kib_compressed() -> None:
    files = [path for path in STATIC.rglob("*") if path.suffix in (".js", ".css", ".html", ".svg")]
    assert files and sum(len(gzip.compress(path.read_bytes())) for path in files) <= 120 * 1024


def test_page_was_built_from_the_current_sources() -> None:
    result = subprocess.run([sys.executable, ROOT / "web" / "manifest.py", "check"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_page_has_no_inline_script_and_names_no_other_host() -> None:
    page = (STATIC / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)", page) and "//" not in page.replace("</", "")
    for path in STATIC.rglob("*.js"):
        hosts = set(re.findall(r"https?://([^/\"'`\s]+)", path.read_text()))
        assert hosts <= {"www.w3.org", "svelte.dev"}, hosts  # XML namespaces, and links in Svelte's error messages
