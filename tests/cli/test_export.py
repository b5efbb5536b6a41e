"""`regard export`: complete or nothing, checked against the original, and one line for every mistake."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import regard as library
from regard.convert.ctranslate2.format import CTranslate2Format
from regard.convert.export import export
from regard.convert.export_check import ExportCheck
from regard.errors import UserError
from tests.cli.command import regard

BUNDLES = Path(__file__).parents[1] / "bundles" / "format-3"
TRANSLATOR = BUNDLES / "transformer"


def test_the_command_writes_a_checked_folder_that_ctranslate2_runs(
    toy_run: Path, held_out: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    sources = held_out[0].read_text().splitlines()
    done = regard("export", toy_run, out, "--to", "ctranslate2", "--check", held_out[0], "--license", "cc0-1.0")
    assert done.returncode == 0, done.stderr
    assert f"{len(sources)} of {len(sources)} outputs equal" in done.stdout and done.stderr == ""
    readme = (out / "README.md").read_text(encoding="utf-8")
    assert f"{len(sources)} of {len(sources)} outputs equal" in readme and "License: cc0-1.0" in readme
    import ctranslate2

    translator: Any = ctranslate2.Translator(str(out))
    results = translator.translate_batch([[f"▁{letter}" for letter in text.split()] for text in sources], beam_size=1)
    translations = library.load(toy_run, device="cpu").translate(sources, beam=1)
    outputs = [" ".join(token.removeprefix("▁") for token in result.hypotheses[0]) for result in results]
    assert outputs == [translation.text for translation in translations]
    vocabulary = json.loads((out / "shared_vocabulary.json").read_text(encoding="utf-8"))
    assert vocabulary[:6] == ["<pad>", "<unk>", "<s>", "</s>", "<sep>", "<mask>"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_shortlist_keeps_the_translations_of_similar_texts(
    toy_run: Path, held_out: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = regard(
        "export", toy_run, out, "--to", "ctranslate2", "--shortlist", 8, "--shortlist-from", held_out[0], "--no-check"
    )
    assert done.returncode == 0, done.stderr
    assert "Of 6 other texts 6 have the same translation" in (out / "README.md").read_text(encoding="utf-8")
    lines = [line.split("\t") for line in (out / "vmap.txt").read_text(encoding="utf-8").splitlines()]
    assert lines[0][0] == "" and all(len(targets.split(" ")) <= 9 for _, targets in lines)
    assert {source for source, _ in lines[1:]} == {f"▁{letter}" for letter in "abcdefgh"}


def test_outputs_that_differ_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong:
        suppresses_specials = False

        def greedy(self, sources: list[list[int]], *_: object) -> list[list[int]]:
            return [[7] for _ in sources]

        def log_probs(self, _: list[int], target: list[int]) -> list[float]:
            return [0.0] * (len(target) + 1)

    monkeypatch.setattr(CTranslate2Format, "open", lambda *_: Wrong())
    checked = export(TRANSLATOR, tmp_path / "out", "ctranslate2", check=["the red cat sleeps"]).checked
    assert isinstance(checked, ExportCheck) and checked.differences
    readme = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert f"{checked.n_equal} of {checked.n_inputs} outputs equal" in readme
    assert "| source | original | exported |" in readme and checked.differences[0].original in readme


@pytest.mark.parametrize("error", [UserError("full"), OSError(28, "full"), KeyboardInterrupt()])
def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def write(_: object, __: object, folder: Path, ___: object) -> None:
        (folder / "model.bin").write_bytes(b"half")
        raise error

    monkeypatch.setattr(CTranslate2Format, "write", write)
    with pytest.raises((UserError, KeyboardInterrupt)):
        export(TRANSLATOR, tmp_path / "out", "ctranslate2")
    assert list(tmp_path.iterdir()) == []


def test_mistakes_are_told_in_one_line(
    tmp_path: Path, error_line: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    damaged = tmp_path / "damaged"
    shutil.copytree(TRANSLATOR, damaged)
    (damaged / "model.safetensors").write_bytes(b"1234")
    ct2 = ("--to", "ctranslate2")
    empty = damaged / "empty.txt"
    empty.write_text("\n \n")
    for arguments, expected in (
        ((TRANSLATOR, out, "--to", "tflite"), "choose one of"),
        ((TRANSLATOR, out, *ct2, "--quantization", "int4"), "int4"),
        ((TRANSLATOR, out, *ct2, "--shortlist", 5), "--shortlist-from FILE"),
        ((TRANSLATOR, out, *ct2, "--shortlist-from", empty), "without --shortlist N"),
        ((TRANSLATOR, out, *ct2, "--check", "x.txt", "--no-check"), "contradict"),
        ((TRANSLATOR, out, *ct2, "--check", tmp_path / "missing.txt"), "missing.txt"),
        ((TRANSLATOR, out, *ct2, "--check", empty), "check: there is no text"),
        ((TRANSLATOR, out, *ct2, "--shortlist", 5, "--shortlist-from", empty), "shortlist: there is no text"),
        ((TRANSLATOR, damaged, *ct2), "exists already"),
        ((TRANSLATOR, tmp_path / "no" / "out", *ct2), "there is no folder"),
        ((damaged, out, *ct2), "model.safetensors"),
        ((tmp_path / "nothing", out, *ct2), "nothing"),
        ((BUNDLES / "rnn-fed", out, *ct2), "CTranslate2 runs Transformers"),
        ((BUNDLES / "captioner", out, *ct2), "CTranslate2 runs Transformers"),
    ):
        assert expected in error_line("export", *arguments)
        assert not out.exists() and sorted(path.name for path in tmp_path.iterdir()) == ["damaged"]
    monkeypatch.delitem(sys.modules, "regard.convert.ctranslate2.format", raising=False)
    monkeypatch.delitem(sys.modules, "regard.convert.ctranslate2.model", raising=False)
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    assert "pip install 'regard[export]'" in error_line("export", TRANSLATOR, out, *ct2)
