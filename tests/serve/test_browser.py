"""The page in a real browser: needs chromium, node and `npm ci` in web/ (CI has them); says so and skips where not."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import regard, toy_files, train_arguments
from tests.serve.live import serving
from tests.serve.models import toy_captioner, toy_models

WEB = Path(__file__).parents[2] / "web"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
MISSING = [
    name
    for name, there in {
        "chromium": CHROMIUM,
        "node": shutil.which("node"),
        "web/node_modules": (WEB / "node_modules").is_dir(),
    }.items()
    if not there
]


@pytest.mark.skipif(bool(MISSING), reason=f"no {', '.join(MISSING)} here")
def test_the_page_does_all_that_it_promises(tmp_path: Path) -> None:
    """web/test/browser.mjs: type, translate, heads, beam, lecture, what-ifs, exports, permalink; axe; other origins"""
    out = tmp_path / "reversed"
    trained = regard(*train_arguments(toy_files(tmp_path), out, "train.steps=450", "valid.every=450"))
    assert trained.returncode == 0, trained.stderr
    sight = toy_captioner(tmp_path / "sight")
    with serving({"reversed": out, **toy_models(tmp_path), "sight": sight}) as (address, _):
        done = subprocess.run(
            ["node", "test/browser.mjs", address],
            cwd=WEB,
            env={**os.environ, "TEXT": "a b c d", "CHROMIUM": str(CHROMIUM)},
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "first paint" in done.stdout
