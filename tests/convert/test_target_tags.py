"""Exports of models with several target languages: a tag in the text works, or the format is refused in one line."""

from pathlib import Path

import pytest

from regard.convert.export import export
from regard.convert.hf.tokenizer import make_tokenizer
from regard.convert.import_model import import_model
from regard.errors import UserError
from regard.pipelines.load import load_translator
from tests.pipelines.examples import TEXT, multilingual_bundle

TEXTS = (f">>deu<< {TEXT}", ">>fra<< a cat", "the witch arrived .")


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "char"])
def test_transformers_tokenizer_reads_tags_as_ours_does(kind: str) -> None:
    tokenizers = multilingual_bundle(kind).tokenizers
    theirs = make_tokenizer(tokenizers, "$A </s>", cleaned=True)
    texts = [*TEXTS, "a >>deu<< cat", *(["a cat>>deu<< a"] if kind != "unigram" else [])]
    for text, ids in zip(texts, tokenizers.src.encode(texts), strict=True):
        assert theirs.encode(text).ids[:-1] == ids, text


@pytest.mark.parametrize("name", ["ctranslate2", "hf"])
def test_the_exported_model_gives_the_same_with_tags(name: str, tmp_path: Path) -> None:
    multilingual_bundle("bpe").save(tmp_path / "model", card="")
    result = export(tmp_path / "model", tmp_path / "out", name, check=TEXTS)
    assert result.checked is not None and not result.checked.differences and result.checked.n_inputs == len(TEXTS)
    assert ">>fra<<" in (tmp_path / "out" / "README.md").read_text(), "the example has a tag"


def test_an_exported_model_comes_back_with_its_directions(tmp_path: Path) -> None:
    multilingual_bundle("bpe").save(tmp_path / "model", card="")
    export(tmp_path / "model", tmp_path / "hf", "hf", check=False)
    import_model(tmp_path / "hf", tmp_path / "again", ("en", "fr"))
    before, after = (load_translator(tmp_path / name, device="cpu") for name in ("model", "again"))
    assert after.directions.targets == before.directions.targets
    one, other = (each.translate([TEXT], to="de", as_written=True, max_len=6)[0] for each in (before, after))
    assert one.source_tokens == other.source_tokens and one.tokens == other.tokens


@pytest.mark.parametrize("name", ["argos", "web"])
def test_formats_without_a_choice_of_the_target_are_refused(name: str, tmp_path: Path) -> None:
    multilingual_bundle("bpe").save(tmp_path / "model", card="")
    with pytest.raises(UserError, match="one target language") as error:
        export(tmp_path / "model", tmp_path / "out", name)
    assert "\n" not in str(error.value) and not (tmp_path / "out").exists()
