"""Loading a model directory as the pipeline for its task."""

import shutil
from pathlib import Path

import pytest

from regard.errors import UserError
from regard.pipelines.load import load, load_translator
from regard.pipelines.translator import Translator
from regard.search.ensemble import Ensemble
from tests.pipelines.examples import BUNDLES


@pytest.mark.parametrize(
    ("folder", "noun"),
    [
        ("transformer", "translator"),
        ("rnn-fed", "translator"),
        ("generator", "generator"),
        ("classifier", "classifier"),
        ("captioner", "captioner"),
    ],
)
def test_the_task_decides_the_pipeline(folder: str, noun: str) -> None:
    assert load(BUNDLES / folder, device="cpu").noun == noun


def test_several_translators_become_an_ensemble() -> None:
    pipeline = load(BUNDLES / "transformer", BUNDLES / "rnn-fed", BUNDLES / "state-space", device="cpu")
    assert isinstance(pipeline, Translator) and isinstance(pipeline.model, Ensemble)
    assert pipeline.members == pipeline.model.members and len(pipeline.members) == 3
    assert pipeline.traced_model is pipeline.members[0]


def test_an_ensemble_of_other_pipelines_or_vocabularies_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="generator: not a translator; an ensemble consists of translators"):
        load(BUNDLES / "transformer", BUNDLES / "generator", device="cpu")
    other = shutil.copytree(BUNDLES / "transformer", tmp_path / "other")
    tokenizer = other / "tokenizer" / "joint.json"
    tokenizer.write_text(tokenizer.read_text().replace("witch", "wizard"))
    with pytest.raises(
        UserError, match=r"other: its tokenizer differs from that of .*; an ensemble needs one vocabulary"
    ):
        load(BUNDLES / "transformer", other, device="cpu")


def test_load_translator_refuses_other_pipelines() -> None:
    assert load_translator(BUNDLES / "transformer", device="cpu").noun == "translator"
    with pytest.raises(UserError, match="not a translator but a captioner"):
        load_translator(BUNDLES / "captioner", device="cpu")
