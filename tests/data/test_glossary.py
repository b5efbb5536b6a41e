"""Glossaries: reading files, finding terms in texts, and checking translations."""

import gzip
from pathlib import Path

import pytest

from regard.data.glossary import Glossary, GlossaryTerm, TermMatch, unmet_terms, write_terms
from regard.errors import UserError

GLOSSARY = Glossary.of(
    {
        "house": "Haus | Hauses",
        "front door": "Haustür",
        "front": "Vorderseite",
        "the front door key": "Haustürschlüssel",
        "US": "USA",
        "us": "uns",
        "猫": "cat",
        "e-mail": "E-Mail",
    }
)


def found(text: str) -> list[tuple[str, str]]:
    """What was found in a text, and the targets"""
    return [(text[m.start : m.end], " | ".join(m.term.targets)) for m in GLOSSARY.find(text)]


def test_the_longest_term_counts_from_left_to_right() -> None:
    assert found("the front door, the front of a house.") == [
        ("front door", "Haustür"),
        ("front", "Vorderseite"),
        ("house", "Haus | Hauses"),
    ]
    assert found("the front door key") == [("the front door key", "Haustürschlüssel")]
    assert found("house house") == [("house", "Haus | Hauses")] * 2, "a term that occurs twice is found twice"


def test_only_whole_words_are_found() -> None:
    assert found("houses greenhouse storefront doors") == []
    assert found("(house)") == [("house", "Haus | Hauses")]
    assert found("my e-mail, your e - mail") == [("e-mail", "E-Mail"), ("e - mail", "E-Mail")]
    assert found("猫がいる") == [("猫", "cat")], "in a script without spaces every character is a word"


def test_a_term_in_the_same_case_comes_first_and_capitals_are_carried_over() -> None:
    assert found("tell us about the US") == [("us", "uns"), ("US", "USA")]
    assert found("the House, the HOUSE") == [("House", "Haus | Hauses"), ("HOUSE", "HAUS | HAUSES")]
    assert found("look at the Front") == [("Front", "Vorderseite")]
    lower = Glossary.of({"credit card": "carte de crédit", "Bank": "banque"})
    assert lower.find("a Credit Card")[0].term.targets == ("Carte de crédit",)
    assert lower.find("CREDIT CARD")[0].term.targets == ("CARTE DE CRÉDIT",)
    assert lower.find("Credit card fees")[0].term.targets == ("carte de crédit", "Carte de crédit"), (
        "due to the position"
    )
    assert lower.find("the bank")[0].term.targets == ("banque",)


def test_translations_are_checked_without_regard_to_case() -> None:
    term = GlossaryTerm("house", ("Haus", "Hauses"))
    [match, again] = [TermMatch(0, 0, term)] * 2
    assert unmet_terms([match], "HAUS!") == unmet_terms([match, again], "das Haus des Hauses") == ()
    assert unmet_terms([match], "die Haustür") == unmet_terms([match, again], "das Haus") == (term,)
    same = TermMatch(0, 0, GlossaryTerm("home", ("Haus", "Hauses")))
    assert unmet_terms([match, same], "ein Haus") == (term,), "terms with the same target must both occur"
    overlapping = GlossaryTerm("door", ("Tür", "Tür auf"))
    assert overlapping.count_in("Tür auf Tür auf") == 2


def test_all_apostrophes_are_the_same() -> None:
    glossary = Glossary.of({"it’s": "c'est | s’agit", "l´eau": "water"})
    [match] = glossary.find("it's")
    assert unmet_terms([match], "c’est") == unmet_terms([match], "s`agit") == ()
    assert match.term.count_in("c’est", is_cased=True) == 1
    assert [found.term.source for found in glossary.find("It‘s l'eau")] == ["it’s", "l´eau"]


def test_targets_get_the_case_of_the_glossary() -> None:
    matches = GLOSSARY.find("the front door of the e-mail house")
    assert write_terms(matches, "die haustür des hauses, haustürschloss") == "die Haustür des Hauses, haustürschloss"
    assert write_terms([], "das haus") == "das haus"


def test_a_file_is_read(tmp_path: Path) -> None:
    content = "\ufeff# terms\r\n\r\nhouse\tHaus | Hauses\r\n  front door \t Haustür\r\n".encode()
    plain, packed = tmp_path / "terms.tsv", tmp_path / "terms.tsv.gz"
    plain.write_bytes(content)
    packed.write_bytes(gzip.compress(content))
    expected = (GlossaryTerm("house", ("Haus", "Hauses")), GlossaryTerm("front door", ("Haustür",)))
    assert Glossary.read(plain).terms == Glossary.read(str(packed)).terms == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"house\tHaus\nhouse Haus\n", "line 2: has no tab between"),
        (b"house\tHa\0us\n", "line 1: the target term 'Ha\\x00us' has a control character"),
        (b"house\tHaus\tnoun\n", "line 1: has 2 tabs"),
        (b"house\t\n", "line 1: has no tab between"),
        (b"house\t \x0b\n", "line 1: has no tab between"),
        (b"\thouse\n", "line 1: has no tab between"),
        (b"house\tHaus |\n", "line 1: 'Haus |' has an empty target"),
        (b"-\tHaus\n", "line 1: '-' has no letter or digit"),
        (b"house\tHaus\n\n# x\nhouse\tGeb\xc3\xa4ude\n", "line 4: 'house' is in line 1 too"),
        (b"house\tGeb\xe4ude\n", "line 1: is not UTF-8"),
        (b"h\xff", "line 1: is not UTF-8"),
        ("house\tHaus".encode("utf-16"), "is UTF-16"),
        (b"a" * 501 + b"\tb", "line 1: the source term has 501 characters"),
        (b"# nothing\n\n", "has no terms"),
        (b"", "has no terms"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_wrong_file_is_refused_in_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "terms.tsv"
    path.write_bytes(content)
    with pytest.raises(UserError) as error:
        Glossary.read(path)
    assert message in str(error.value) and str(error.value).startswith(str(path)) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "n", "n_cased"),
    [("« Carte » ici", 1, 1), ("ici Carte", 1, 0), ("carte, CARTE", 2, 1), ("Carte carte", 2, 2), ("cartes", 0, 0)],
)
def test_a_term_may_have_a_capital_as_the_first_word_only(text: str, n: int, n_cased: int) -> None:
    term = GlossaryTerm("card", ("carte",))
    assert (term.count_in(text), term.count_in(text, is_cased=True)) == (n, n_cased)
