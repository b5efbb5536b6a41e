"""Model directories: every format version loads and gives the same results; a newer one is refused."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.alignment.from_attention import Aligner
from regard.bundle import Bundle, save_alignment
from regard.bundle_files import accept_files
from regard.bundle_upgrade import FORMAT_VERSION
from regard.errors import UserError
from regard.pipelines.captioner import Captioner
from regard.pipelines.classifier import Classifier
from regard.pipelines.generator import Generator
from regard.pipelines.load import load
from regard.pipelines.translator import Translator
from regard.text.direction import Directions
from regard.text.seen_words import SeenWords

BUNDLES = Path(__file__).parent / "bundles"
VERSIONS = sorted(BUNDLES.iterdir())
FOLDERS = [folder for version in VERSIONS for folder in sorted(version.iterdir()) if folder.is_dir()]
TEXTS = ["the green witch arrived", "a red cat sleeps", "the cat sees a witch"]


def results(folder: Path) -> Any:
    """What a model returns for TEXTS, or for an image"""
    match load(folder, device="cpu"):
        case Translator() as translator:
            translations = translator.translate(TEXTS, n_best=2)
            return [[[h.text, h.score] for h in translation.hypotheses] for translation in translations]
        case Generator() as generator:
            return generator.score(TEXTS)
        case Classifier() as classifier:
            return [dict(result.probabilities) for result in classifier.classify(TEXTS)]
        case Captioner() as captioner:
            image = np.arange(8 * 8 * 3, dtype=np.uint8).reshape(8, 8, 3)
            return [[caption.text, caption.score] for caption in captioner.caption([image])]


def assert_same(left: Any, right: Any) -> None:
    """Equal texts, and numbers equal up to rounding"""
    if isinstance(left, float):
        assert left == pytest.approx(right, abs=1e-5)
    elif isinstance(left, dict):
        assert left.keys() == right.keys()
        assert_same(list(left.values()), list(right.values()))
    elif isinstance(left, list):
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            assert_same(one, other)
    else:
        assert left == right


def test_there_is_a_bundle_of_every_format_version() -> None:
    assert [folder.name for folder in VERSIONS] == [f"format-{n}" for n in range(1, FORMAT_VERSION + 1)]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: f"{f.parent.name}-{f.name}")
def test_a_bundle_gives_what_it_gave_when_it_was_written(folder: Path) -> None:
    expected = json.loads((folder.parent / "expected.json").read_text())
    assert_same(results(folder), expected[folder.name])


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: f"{f.parent.name}-{f.name}")
def test_saved_again_it_has_the_present_format_and_gives_the_same(folder: Path, tmp_path: Path) -> None:
    Bundle.load(folder).save(tmp_path, "card")
    assert json.loads((tmp_path / "config.json").read_text())["format_version"] == FORMAT_VERSION
    assert_same(results(tmp_path), results(folder))


def test_directions_are_stored_if_there_are_several(tmp_path: Path) -> None:
    folder = BUNDLES / "format-3" / "transformer"
    bundle = Bundle.load(folder)
    bundle.save(tmp_path / "pair", "card")
    keys = [list(json.loads((each / "config.json").read_text())) for each in (tmp_path / "pair", folder)]
    assert keys[0] == keys[1] and bundle.all_directions.first.languages == bundle.languages
    several = Directions.of([("en", "fr"), ("en", "de")]).several
    replace(bundle, directions=several).save(tmp_path / "several", "card")
    loaded = Bundle.load(tmp_path / "several")
    assert loaded.directions == loaded.all_directions.all == several
    save_alignment(tmp_path / "several", Aligner(layer=0))
    assert Bundle.load(tmp_path / "several").directions == several


def test_words_of_the_training_data_are_optional(tmp_path: Path) -> None:
    bundle = Bundle.load(BUNDLES / "format-3" / "transformer")
    assert bundle.words is None
    assert all(t.unknown == () for t in load(BUNDLES / "format-3" / "transformer", device="cpu").translate(["x y"]))
    replace(bundle, words=SeenWords.count(["the cat", "the Dog"])).save(tmp_path, "card")
    translator = load(tmp_path, device="cpu")
    assert isinstance(translator, Translator)
    assert [t.unknown for t in translator.translate(["The cat and the DOG and", ""])] == [("and",), ()]
    (tmp_path / "manifest.json").unlink()
    accept_files(tmp_path)
    assert Bundle.load(tmp_path).words == translator.words, "accepted files include the words"
    (tmp_path / "words.tsv").write_bytes(b"the\t1\n")
    accept_files(tmp_path)
    with pytest.raises(UserError, match=r"words\.tsv: damaged"):
        Bundle.load(tmp_path)


def test_a_bundle_without_a_version_is_of_the_first_format(tmp_path: Path) -> None:
    folder = copy_with(tmp_path, lambda config: config.pop("schema_version"))
    assert_same(results(folder), results(BUNDLES / "format-1" / "rnn-fed"))


def test_a_newer_format_is_refused_in_one_line(tmp_path: Path) -> None:
    newer = FORMAT_VERSION + 1
    folder = copy_with(tmp_path, lambda config: config.update(format_version=newer))
    with pytest.raises(UserError, match=rf"newer regard \(format {newer}.*upgrade regard") as error:
        load(folder)
    assert "\n" not in str(error.value)
    folder = copy_with(tmp_path, lambda config: config.update(format_version="two"))
    with pytest.raises(UserError, match="must be a positive number"):
        load(folder)


def test_choosing_an_aligner_leaves_an_older_bundle_readable(tmp_path: Path) -> None:
    folder = copy_with(tmp_path, lambda config: None)
    before = results(folder)
    save_alignment(folder, Aligner(layer=0, head=0))
    assert_same(results(folder), before)
    assert Bundle.load(folder).alignment == Aligner(layer=0, head=0)


def copy_with(tmp_path: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    """Copy a bundle of format 1 and change its config.json."""
    folder = tmp_path / "copy"
    shutil.copytree(BUNDLES / "format-1" / "rnn-fed", folder, dirs_exist_ok=True)
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))
    return folder
