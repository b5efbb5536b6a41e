"""Test sets from one file of pairs."""

import json
from pathlib import Path

import pytest

from regard.errors import UserError
from regard.evaluate.test_set import read_test_files

TMX = """<?xml version="1.0"?><tmx version="1.4"><header srclang="en"/><body>
<tu><tuv xml:lang="en"><seg>a cat</seg></tuv><tuv xml:lang="fr"><seg>un chat</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>a dog</seg></tuv><tuv xml:lang="fr"><seg>un chien</seg></tuv></tu>
</body></tmx>"""


@pytest.mark.parametrize("suffix", ["tmx", "jsonl", "tsv"])
def test_the_direction_is_that_of_the_model_if_the_file_names_its_languages(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"test.{suffix}"
    pairs = [("a cat", "un chat"), ("a dog", "un chien")]
    rows = [json.dumps({"translation": {"en": en, "fr": fr}}) for en, fr in pairs]
    contents = {"tmx": TMX, "jsonl": "\n".join(rows), "tsv": "\n".join(map("\t".join, pairs))}
    path.write_text(contents[suffix])
    english, french = ["a cat", "a dog"], ["un chat", "un chien"]
    for languages in (None, ("en", "fr")):
        test_set, problems = read_test_files([path], languages)
        assert (test_set.sources, test_set.references, problems) == (english, french, ())
    reversed_set, _ = read_test_files([path], ("fr", "en"))
    expected = (english, french) if suffix == "tsv" else (french, english)
    assert (reversed_set.sources, reversed_set.references) == expected


def test_unusable_files_are_named_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "test.tmx"
    path.write_text(TMX)
    with pytest.raises(UserError, match=r"the file has en and fr, the model translates de to en"):
        read_test_files([path], ("de", "en"))
    tsv = tmp_path / "test.tsv"
    tsv.write_text("a\tb\nc\n")
    test_set, problems = read_test_files([tsv], None)
    assert test_set.sources == ["a"] and "not two tab-separated columns" in problems[1]
    with pytest.raises(UserError, match="give SRC and REF, or one file of pairs"):
        read_test_files([tsv, tsv, tsv], None)
