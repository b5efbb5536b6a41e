"""The built page, as it is shipped."""

import gzip
import re
import subprocess
import sys
from pathlib import Path

from regard.serve.app import STATIC

ROOT = Path(__file__).parents[2]


def test_it_is_small() -> None:
    sent = [path for path in STATIC.rglob("*") if path.suffix in (".js", ".css", ".html", ".svg")]
    assert sent and sum(len(gzip.compress(path.read_bytes())) for path in sent) <= 120 * 1024


def test_it_is_the_one_that_the_sources_make() -> None:
    done = subprocess.run([sys.executable, ROOT / "web" / "manifest.py", "check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_it_has_no_script_of_its_own_in_the_page_and_names_no_other_host() -> None:
    page = (STATIC / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)", page) and "//" not in page.replace("</", "")
    for path in STATIC.rglob("*.js"):
        hosts = set(re.findall(r"https?://([^/\"'`\s]+)", path.read_text()))
        assert hosts <= {"www.w3.org", "svelte.dev"}, hosts  # names of XML, and where an error is explained
