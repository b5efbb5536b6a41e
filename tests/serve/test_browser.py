"""The page in a real browser. Needs chromium, node and `npm ci` in web/, which CI has; skipped where one is missing."""

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
    for name, present in {
        "chromium": CHROMIUM,
        "node": shutil.which("node"),
        "web/node_modules": (WEB / "node_modules").is_dir(),
    }.items()
    if not present
]


@pytest.mark.skipif(bool(MISSING), reason=f"missing: {', '.join(MISSING)}")
def test_page_in_browser(tmp_path: Path) -> None:
    """Run web/test/browser.mjs: from the whole model to a number, for every kind of model; what-ifs, tour, keyboard."""
    out = tmp_path / "reversed"
    trained = regard(*train_arguments(toy_files(tmp_path), out, "train.steps=450", "valid.every=450"))
    assert trained.returncode == 0, trained.stderr
    captioner = toy_captioner(tmp_path / "captioner")
    models = {"reversed": out, **toy_models(tmp_path), "captioner": captioner}
    with serving(models) as (address, _), serving({"reversed": out}, token="s3cret") as (guarded, _):
        result = subprocess.run(
            ["node", "test/browser.mjs", address],
            cwd=WEB,
            env={**os.environ, "TEXT": "a b c d", "GUARDED": guarded, "CHROMIUM": str(CHROMIUM)},
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    assert "first paint" in result.stdout
