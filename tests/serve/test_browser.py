"""The page in Chromium and Firefox. Needs node and `npm ci` in web/, which CI has; skipped where one is missing."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import environment, regard, toy_files, train_arguments
from tests.serve.live import serving
from tests.serve.models import toy_captioner, toy_classifier, toy_models

WEB = Path(__file__).parents[2] / "web"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
NODE = shutil.which("node")
PACKAGES = (WEB / "node_modules").is_dir()


def needs(**present: object) -> pytest.MarkDecorator:
    missing = [name for name, found in present.items() if not found]
    return pytest.mark.skipif(bool(missing), reason=f"missing: {', '.join(missing)}")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A trained translator, `reversed`, and untrained models of the other kinds"""
    folder = tmp_path_factory.mktemp("models")
    out = folder / "reversed"
    trained = regard(*train_arguments(toy_files(folder), out, "train.steps=450", "valid.every=450"))
    assert trained.returncode == 0, trained.stderr
    others = {"captioner": toy_captioner(folder / "captioner"), "classifier": toy_classifier(folder / "classifier")}
    return {"reversed": out, **toy_models(folder), **others}


@pytest.fixture(scope="module")
def address(models: dict[str, Path]) -> Iterator[str]:
    with serving(models) as (address, _):
        yield address


def run_node(*words: str, **settings: str) -> str:
    """Run a script of web/ with these environment variables; return what it prints."""
    env = {**environment(), "TEXT": "a b c d", **settings}
    result = subprocess.run(["node", *words], cwd=WEB, env=env, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return result.stdout


@needs(chromium=CHROMIUM, node=NODE, packages=PACKAGES)
def test_page_in_browser(models: dict[str, Path], address: str) -> None:
    """Run web/test/browser.mjs: from the whole model to a number, for every kind of model; what-ifs, tour, keyboard."""
    serve = json.dumps([sys.executable, "-m", "regard", "serve", f"toy={models['toy']}"])
    with serving({"reversed": models["reversed"]}, token="s3cret") as (guarded, _):
        printed = run_node("test/browser.mjs", address, GUARDED=guarded, CHROMIUM=str(CHROMIUM), SERVE=serve)
    assert "first paint" in printed
    assert "ok killedServer" in printed


@needs(firefox=FIREFOX, node=NODE)
def test_page_in_firefox(address: str) -> None:
    """Run web/test/firefox.mjs: translate, and zoom from the whole model to a number and back."""
    printed = run_node("--experimental-websocket", "test/firefox.mjs", address, FIREFOX=str(FIREFOX))
    assert "map, layer, heads, cell and back" in printed
