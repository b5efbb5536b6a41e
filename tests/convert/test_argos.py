"""Packages for Argos Translate; bench/argos.py installs one and translates with it."""

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from regard.bundle import NO_LANGUAGES
from regard.convert.argos.format import ArgosFormat
from regard.convert.argos.splitter import argos_splitter
from regard.convert.ctranslate2.model import CTranslate2Model
from regard.convert.export import export
from regard.convert.export_check import compare, sample_inputs
from regard.convert.export_format import ExportOptions
from regard.errors import UserError
from tests.convert.shapes import SEPARATE, bundle_of, sentencepiece

DEFAULT = "Transformer, pre-norm, sinusoidal (the default)"


def test_a_package_is_one_folder_with_model_tokenizer_and_splitter(tmp_path: Path) -> None:
    bundle = replace(bundle_of(DEFAULT, tokenizer=sentencepiece()), examples=("the red cat",))
    bundle.save(tmp_path / "ours", "card")
    out = tmp_path / "translate-en_fr-1_0.argosmodel"
    exported = export(tmp_path / "ours", out, "argos", quantization="float32", license="cc0-1.0", check=["the red cat"])
    assert exported.n_bytes == out.stat().st_size and exported.checked and not exported.checked.differences
    with zipfile.ZipFile(out) as archive:
        archive.extractall(tmp_path / "installed")
    [folder] = (tmp_path / "installed").iterdir()
    assert folder.name == "translate-en_fr-1_0"
    assert {"metadata.json", "sentencepiece.model", "model", "minisbd", "README.md"} == {
        path.name for path in folder.iterdir()
    }
    metadata = json.loads((folder / "metadata.json").read_text())
    assert metadata == metadata | {"from_code": "en", "to_code": "fr", "to_name": "French", "license": "cc0-1.0"}
    assert (folder / "sentencepiece.model").read_bytes() == bundle.tokenizers.src.to_bytes()
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert "install_from_path" in readme and "outputs equal" in readme and "License: cc0-1.0" in readme
    model = CTranslate2Model(folder / "model", bundle)
    assert not compare(bundle, model, sample_inputs(bundle)[:3], max_len=10).differences


def test_a_failure_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle_of(DEFAULT, tokenizer=sentencepiece()).save(tmp_path / "ours", "card")

    def fail(*_: object) -> None:
        raise UserError("full")

    monkeypatch.setattr("regard.convert.argos.format.argos_splitter", fail)
    with pytest.raises(UserError, match="full"):
        export(tmp_path / "ours", tmp_path / "out.argosmodel", "argos")
    assert [path.name for path in tmp_path.iterdir()] == ["ours"]


def test_models_that_argos_cannot_run_are_refused() -> None:
    ours = bundle_of(DEFAULT, tokenizer=sentencepiece())
    for bundle, options, expected in (
        (bundle_of(DEFAULT), ExportOptions(), "SentencePiece"),
        (bundle_of(SEPARATE), ExportOptions(), "SentencePiece"),
        (bundle_of("decoder-only translator", tokenizer=sentencepiece()), ExportOptions(), "encoder and a decoder"),
        (bundle_of("RNN"), ExportOptions(), "CTranslate2 runs Transformers"),
        (replace(ours, languages=NO_LANGUAGES), ExportOptions(), "--languages en-fr"),
    ):
        problem = ArgosFormat().problem(bundle, options)
        assert problem is not None and expected in problem and "\n" not in problem
    assert ArgosFormat().problem(ours, ExportOptions()) is None


def test_the_splitter_finds_the_ends_of_sentences() -> None:
    session = onnxruntime.InferenceSession(argos_splitter(), providers=["CPUExecutionProvider"])
    vocab = json.loads(session.get_modelmeta().custom_metadata_map["vocab"])["_unit2id"]

    def sentences(text: str) -> list[str]:
        units = np.array([[vocab.get(character, vocab["<UNK>"]) for character in text] + [vocab["<PAD>"]]])
        [logits] = session.run(None, {"units": units, "features": np.zeros((1, len(text) + 1, 1), np.float32)})
        ends = [i + 1 for i in np.flatnonzero(logits[0, : len(text)].argmax(-1) == 2)]
        return [text[low:high].strip() for low, high in zip([0, *ends], [*ends, len(text)], strict=True) if low < high]

    assert sentences("the cat sleeps") == ["the cat sleeps"]
    assert sentences("It is. Is it? Yes!") == ["It is.", "Is it?", "Yes!"]
    assert sentences('He paid 3.50, e.g. for tea. She said "Go." Then…') == [
        "He paid 3.50, e.g. for tea.",
        'She said "Go."',
        "Then…",
    ]
    assert sentences("第一句。第二句！「好。」完") == ["第一句。", "第二句！", "「好。」", "完"]
