"""What an inspection counts, and that a cleaned corpus has none of what was removed."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from regard.data import inspection
from regard.data.cleaning import REMOVED, clean_corpus
from regard.data.inspection import Inspection, inspect_corpus
from regard.data.inspection_text import describe_inspection
from regard.data.pair_rules import RULES
from regard.data.parallel_corpus import Corpus
from regard.errors import UserError

GERMAN = ["Der Hund läuft schnell durch den grünen Park", "Eine Frau liest am Abend ein altes Buch"]
ENGLISH = ["The dog runs quickly through the green park", "A woman reads an old book in the evening"]
BAD = {
    "duplicate of an earlier pair": f"{ENGLISH[0]} 4\t{GERMAN[0]} 4",
    "identical sides": f"{GERMAN[0]}!\t{GERMAN[0]}!",
    "extreme length ratio": f"{ENGLISH[0]}\tNein",
    "wrong script": f"{ENGLISH[0]}\tСобака быстро бежит через зелёный парк",
    "wrong language": f"{ENGLISH[0]}\tLe chien court rapidement à travers le parc vert",
    "empty side": f"{ENGLISH[0]}\t",
    "not two tab-separated columns": "one column only",
}


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    """A TSV with one bad line of each kind after line 40."""
    lines = [f"{ENGLISH[i % 2]} {i}\t{GERMAN[i % 2]} {i}" for i in range(100)]
    lines[40:40] = BAD.values()
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{line}\n" for line in lines))
    return Corpus((path,))


def inspect(corpus: Corpus, **held_out: Corpus) -> Inspection:
    return inspect_corpus(corpus.read(), {name: other.read() for name, other in held_out.items()})


def test_each_kind_is_found_once_and_at_its_line(corpus: Corpus) -> None:
    found = inspect(corpus)
    assert (found.lines, found.pairs) == (107, 105)
    lines = {finding.problem.removeprefix("left out: "): finding for finding in found.findings}
    for number, problem in enumerate(BAD, start=41):
        # A German source and a Russian target are in a wrong language too.
        n_pairs = 3 if problem == "wrong language" else 1
        assert number in lines[problem].lines and lines[problem].pairs == n_pairs, problem
    assert found.source.scripts == {"Latin": 1.0} and set(found.target.scripts) == {"Latin", "Cyrillic"}
    assert found.removable == len(BAD)
    words = [word for source, _ in corpus.read() for word in source.split()]
    assert (found.source.words, found.source.distinct_words) == (len(words), len(set(words)))


def test_the_text_fits_on_a_screen_and_says_what_to_do(corpus: Corpus) -> None:
    found = inspect(corpus, test=corpus)
    text = describe_inspection(found, "regard data clean pairs.tsv --out FOLDER")
    assert "105 of 105 sources (100.0 %) of the test" in text and "at lines" in text
    assert text.endswith("`regard data clean pairs.tsv --out FOLDER` removes 7 of 107 lines (6.5 %).")
    assert len(text.splitlines()) < 50
    assert json.loads(json.dumps(asdict(found)))["findings"][0]["pairs"] == 1


def test_nothing_is_found_in_a_cleaned_corpus(corpus: Corpus, tmp_path: Path) -> None:
    result = clean_corpus(corpus, tuple(RULES.values()), tmp_path / "clean")
    assert (result.lines, result.kept) == (107, 100) and sum(result.removed.values()) == 7
    assert [path.name for path in result.files] == ["pairs.src", "pairs.tgt"]
    clean = Corpus(result.files)
    found = inspect(clean)
    assert found.removable == 0 and not any(finding.pairs for finding in found.findings if finding.name)
    again = clean_corpus(clean, tuple(RULES.values()), tmp_path / "again")
    assert [path.read_bytes() for path in again.files] == [path.read_bytes() for path in result.files]
    assert (tmp_path / "again" / REMOVED).read_text() == "line\treason\tsource\ttarget\n"


def test_what_was_removed_is_written_with_line_reason_and_sides(corpus: Corpus, tmp_path: Path) -> None:
    clean_corpus(corpus, tuple(RULES.values()), tmp_path / "clean")
    rows = [line.split("\t") for line in (tmp_path / "clean" / REMOVED).read_text().splitlines()[1:]]
    assert [int(line) for line, *_ in rows] == list(range(41, 48)) and [reason for _, reason, *_ in rows] == list(BAD)
    assert ["\t".join(sides) for *_, sides in ((line, reason, sides) for line, reason, *sides in rows)] == [
        *list(BAD.values())[:-1],
        "\t",
    ]


def test_only_the_chosen_rules_are_applied(corpus: Corpus, tmp_path: Path) -> None:
    result = clean_corpus(corpus, [RULES["script"]], tmp_path / "clean")
    assert set(result.removed) == {"wrong script", "empty side", "not two tab-separated columns"}


def test_an_output_folder_with_files_is_not_touched(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="already exists"):
        clean_corpus(corpus, [], tmp_path)
    with pytest.raises(UserError, match="already exists"):
        clean_corpus(corpus, [], tmp_path / "pairs.tsv")
    with pytest.raises(UserError, match="is not a folder"):
        clean_corpus(corpus, [], tmp_path / "pairs.tsv" / "clean")
    assert [path.name for path in tmp_path.iterdir()] == ["pairs.tsv"]


def test_without_the_package_languages_are_not_checked(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "can_identify", lambda: False)
    found = inspect(corpus)
    assert "pip install 'regard[data]'" in found.notes[0] and not found.source.languages
    assert found.removable == 6


def test_only_some_pairs_of_a_large_corpus_are_asked_for_their_language(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "_MOST_IDENTIFIED", 20)
    found = inspect(corpus)
    assert found.notes == ("languages: one of 6 pairs was looked at",) and found.is_sample
    assert found.source.languages == {"en": 1.0}


def test_mixed_labels_are_no_reason_to_remove(tmp_path: Path) -> None:
    path = tmp_path / "mixed.tsv"
    sides = [GERMAN[0] if i % 3 else "Собака быстро бежит через зелёный парк" for i in range(60)]
    path.write_text("".join(f"{ENGLISH[0]} {i}\t{side} {i}\n" for i, side in enumerate(sides)))
    found = inspect(Corpus((path,)))
    assert found.removable == 0 and len(found.target.scripts) == 2
    assert "the target is a mixture of scripts, so none of them counts as wrong" in found.notes


def test_another_encoding_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes("".join(f"{ENGLISH[0]}\t{side}\n" for side in GERMAN).encode("latin-1"))
    assert "convert files in another encoding (iconv" in inspect(Corpus((path,))).notes[0]
    path.write_bytes("".join(f"{ENGLISH[0]}\t{side}\n" for side in GERMAN).encode("utf-16"))
    with pytest.raises(UserError, match="is UTF-16; convert it"):
        inspect(Corpus((path,)))


def test_a_pair_with_carriage_returns_on_both_sides_is_one_pair(tmp_path: Path) -> None:
    files = tmp_path / "a.en", tmp_path / "a.de"
    for file, texts in zip(files, (ENGLISH, GERMAN), strict=True):
        file.write_bytes("".join(f"{text}\r\n" for text in texts).encode())
    [found] = [finding for finding in inspect(Corpus(files)).findings if "carriage return" in finding.problem]
    assert (found.pairs, found.share) == (2, 1.0)
