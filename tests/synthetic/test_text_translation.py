"""A translated file does not depend on the size of its parts, on compression, or on where the job was stopped."""

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.data.data_file import read_lines
from regard.errors import UserError
from regard.pipelines.load import load_translator
from regard.synthetic.text_translation import TextTranslation, TranslatedLine
from tests.synthetic.conftest import untrained_translator

SEARCHES: list[dict[str, Any]] = [{}, {"sampling": {"temperature": 1.3, "seed": 7}}, {"beam": 4, "n_best": 3}]


def translate(model: Path, text: Path, folder: Path, **options: Any) -> list[TranslatedLine]:
    return list(TextTranslation((model,), text, folder, **options).run())


@pytest.mark.parametrize("options", SEARCHES, ids=["beam", "sampling", "n-best"])
def test_parts_of_one_line_give_the_same_as_one_part(
    reverse_model: Path, text: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    whole = translate(reverse_model, text, tmp_path / "whole", options=options)
    single = translate(reverse_model, text, tmp_path / "single", options=options, part_lines=1)
    assert whole == single
    assert len(list((tmp_path / "single").glob("part-*"))) == 61
    assert len({line.candidates for line in whole}) > 30


def test_the_translations_are_those_of_the_translator(reverse_model: Path, text: Path, tmp_path: Path) -> None:
    lines = translate(reverse_model, text, tmp_path / "parts", part_lines=7)
    expected = load_translator(reverse_model).translate([line.source for line in lines], split=True)
    for line, translation in zip(lines, expected, strict=True):
        if line.source:
            best = translation.hypotheses[0]
            assert line.candidates[0].text == translation.text
            assert line.candidates[0].score == pytest.approx(best.log_prob / best.n_tokens, abs=1e-4)
    assert [line.problem for line in lines if not line.source] == ["empty line"]


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_text_gives_the_same(
    reverse_model: Path, text: Path, tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes]
) -> None:
    packed = tmp_path / f"packed.fr{suffix}"
    packed.write_bytes(compress(text.read_bytes()))
    plain = translate(reverse_model, text, tmp_path / "a", part_lines=20)
    assert translate(reverse_model, packed, tmp_path / "b", part_lines=20) == plain


def test_only_missing_parts_are_translated(reverse_model: Path, text: Path, tmp_path: Path) -> None:
    job = TextTranslation((reverse_model,), text, tmp_path / "parts", part_lines=10)
    done = job.run()
    contents = {path.name: path.read_bytes() for path in done.folder.iterdir()}
    done.part(3).unlink()
    times = {path.name: path.stat().st_mtime_ns for path in done.folder.iterdir()}
    job.run()
    assert {path.name: path.read_bytes() for path in done.folder.iterdir()} == contents
    assert times.items() <= {path.name: path.stat().st_mtime_ns for path in done.folder.iterdir()}.items()


def test_a_job_of_other_inputs_is_refused(reverse_model: Path, text: Path, tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    translate(reverse_model, text, folder)
    other = untrained_translator(tmp_path / "other", seed=1)
    with pytest.raises(UserError, match=r"another model; .*delete this folder"):
        translate(other, text, folder)
    with pytest.raises(UserError, match=r'options \{\}, not \{"beam": 2\}'):
        translate(reverse_model, text, folder, options={"beam": 2})
    with pytest.raises(UserError, match="lines per part 8192, not 5"):
        translate(reverse_model, text, folder, part_lines=5)
    text.write_text(text.read_text() + "a b\n")
    with pytest.raises(UserError, match="another text"):
        translate(reverse_model, text, folder)


def test_a_damaged_part_is_named(reverse_model: Path, text: Path, tmp_path: Path) -> None:
    done = TextTranslation((reverse_model,), text, tmp_path / "parts").run()
    done.part(1).write_bytes(done.part(1).read_bytes()[:-20])
    with pytest.raises(UserError, match=r"part-000001\.jsonl\.gz: damaged; delete it"):
        list(done)


def test_lines_that_cannot_be_read_have_a_problem(reverse_model: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.fr"
    text.write_bytes(b"a b\n\xff\xfe\n" + b"a " * 3000 + b"\n" + b"a" * 1500 + b"\nb\0c\nc")
    problems = [line.problem for line in translate(reverse_model, text, tmp_path / "parts", part_lines=2)]
    assert problems == ["", "invalid UTF-8", "over 5,000 characters", "too long for the model", "NUL character", ""]
    assert len(list(read_lines(text))) == 6
