"""`regard distill` from the command line; tests/synthetic/test_faults.py runs it to its end."""

from collections.abc import Callable
from pathlib import Path

import pytest

from regard.bundle import Bundle
from tests.synthetic.conftest import random_lines, untrained_translator, write_lines


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untrained_translator(tmp_path_factory.mktemp("models") / "en-fr", src="en", tgt="fr")


def test_mistakes_are_one_line(teacher: Path, tmp_path: Path, error_line: Callable[..., str]) -> None:
    files = [write_lines(tmp_path / f"a.{side}", random_lines(30)) for side in ("en", "fr")]
    out = ("--out", tmp_path / "out")
    data = ("--data", *files)
    assert "--data" in error_line("distill", teacher, *out)
    assert "not 3 files" in error_line("distill", teacher, *data, "--data", files[0], *out)
    assert "in the other order" in error_line("distill", teacher, "--data", *files[::-1], *out)
    assert "seems to be fr text" in error_line("distill", teacher, "--data", files[1], *out)
    reverse = untrained_translator(tmp_path / "fr-en", src="fr", tgt="en")
    assert f"translates to en, but {teacher} to fr" in error_line("distill", teacher, reverse, *data, *out)
    assert "needs pairs" in error_line("distill", teacher, "--data", files[0], *out, "--best-of", 3)
    assert "no model found" in error_line("distill", teacher, tmp_path, *data, *out)
    assert "unknown key 'x'" in error_line("distill", teacher, *data, *out, "--set", "model.x=1")
    ensemble = (teacher, teacher, *data, *out)
    assert "leave --engine out" in error_line("distill", *ensemble, "--engine", "ctranslate2:int8")
    bundle = Bundle.load(teacher)
    text_model = Bundle(bundle.model, bundle.model_config, bundle.tokenizers, ("a", "b"), bundle.decode, "text")
    text_model.save(tmp_path / "text", "")
    assert "not a translator" in error_line("distill", tmp_path / "text", *data, *out)
    assert not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    write_lines(tmp_path / "out" / "mine", [])
    assert "is not empty; choose a new folder" in error_line("distill", teacher, *data, *out)
