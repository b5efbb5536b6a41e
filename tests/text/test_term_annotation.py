"""Annotated terms: the text, and which source words its words belong to."""

import pytest

from regard.text.fitted_text import FittedText
from regard.text.seen_words import SeenWords
from regard.text.term_annotation import SYMBOLS, AnnotatedSpan, annotate, annotate_fitted
from regard.text.units import split_units


def spans(text: str, **targets: str) -> list[AnnotatedSpan]:
    return sorted(AnnotatedSpan(text.index(term), text.index(term) + len(term), to) for term, to in targets.items())


@pytest.mark.parametrize(
    ("text", "targets", "expected"),
    [
        ("a house", {"house": "Haus"}, "a __source__ house __target__ Haus __done__"),
        ("house", {"house": "ein Haus"}, "__source__ house __target__ ein Haus __done__"),
        ("(house), a", {"house": "Haus"}, "( __source__ house __target__ Haus __done__ ), a"),
        (
            "a b c d",
            {"b c": "x", "d": "y"},
            "a __source__ b c __target__ x __done__ __source__ d __target__ y __done__",
        ),
        ("a b", {}, "a b"),
    ],
)
def test_targets_follow_their_terms(text: str, targets: dict[str, str], expected: str) -> None:
    assert annotate(text, spans(text, **targets)) == expected
    assert annotate_fitted(FittedText(text), spans(text, **targets)).text == expected


@pytest.mark.parametrize("text", ["the big house, and a door", "(house) door", "house door", "door! house"])
def test_inserted_words_belong_to_the_word_of_their_term(text: str) -> None:
    fitted = annotate_fitted(FittedText(text), spans(text, house="mein Haus", door="Tür"))
    words, read = split_units(text), split_units(fitted.text)
    assert [words[i].strip("(),!") for i in fitted.word_numbers] == [
        "house" if word in ("mein", "Haus") else "door" if word == "Tür" else words[i].strip("(),!")
        for word, i in zip(read, fitted.word_numbers, strict=True)
    ]
    own = [
        i for word, i in zip(read, fitted.word_numbers, strict=True) if word.strip("(),!") in ("house", "door", "big")
    ]
    assert [words[i].strip("(),!") for i in own] == [w for w in read if w in ("house", "door", "big")]
    assert {fitted.word_numbers[i] for i, word in enumerate(read) if word in SYMBOLS} == {
        i for i, word in enumerate(words) if "house" in word or "door" in word
    }
    links = fitted.restore_links([(i, 0) for i in range(len(read))], 1)
    assert links == tuple((i, 0) for i in range(len(words))), "every source word, and nothing else"


def test_words_are_numbered_as_before_punctuation_was_separated() -> None:
    seen = SeenWords.count(["the house , a door ."] * 9)
    plain = FittedText.fit("«The house, a door.", seen)
    assert plain.text == "the house , a door ."
    fitted = annotate_fitted(plain, spans(plain.text, door="Tür"))
    assert [fitted.source_word(i) for i in range(len(split_units(fitted.text)))] == [0, 1, 1, 2, 3, 3, 3, 3, 3, 3]
    assert fitted.restore("das Haus") == "«Das Haus"


def test_without_terms_nothing_changes() -> None:
    fitted = FittedText("a house")
    assert annotate_fitted(fitted, []) is fitted
