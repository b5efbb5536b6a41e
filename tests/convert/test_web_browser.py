"""The exported page in a real browser. Needs what the page of `regard serve` does: chromium, node, `npm ci` in web/."""

import json
import os
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import regard
from regard.convert.export import export
from tests.convert.shapes import bundle_of, sentencepiece
from tests.serve.test_browser import CHROMIUM, NODE, PACKAGES, WEB, needs

TEXTS = [
    "the green witch arrived",
    "the cats sat on the mat . ",
    "Straße 12 und 123",
    "猫 です",
    "x=1;y=2",
    "a  b\u00a0c",
    "été",
    "😀 smile",
    "banana bananas",
    "l'été où les garçons dansaient",
]


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass


@needs(chromium=CHROMIUM, node=NODE, packages=PACKAGES)
def test_page_translates_with_the_network_cut(tmp_path: Path) -> None:
    bundle_of("no bias", sentencepiece()).save(tmp_path / "model", "toy")
    export(tmp_path / "model", tmp_path / "page", "web", check=False)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(tmp_path / "page")))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        done = subprocess.run(
            ["node", "test/exported.mjs", f"http://127.0.0.1:{server.server_port}"],
            cwd=WEB,
            env={**os.environ, "TEXTS": json.dumps(TEXTS), "CHROMIUM": str(CHROMIUM)},
            capture_output=True,
            text=True,
            timeout=120,
        )
    finally:
        server.shutdown()
        server.server_close()
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    result, translator = json.loads(done.stdout), regard.load(tmp_path / "model", device="cpu")
    for name, beam in {"greedy": 1, "beam": 5}.items():
        expected = [t.text for t in translator.translate(TEXTS, beam=beam, as_written=True)]
        assert [translation["text"].strip() for translation in result[name]] == expected
