from random import Random

import pytest

from regard.data.modifiers import Noise, RemoveEndPunct, TitleCase, Typos, UpperCase
from regard.data.typos import TYPOS

TEXT = "She sells Sea shells, doesn't she?"


def same_letters(left: str, right: str) -> int:
    """Return how many letters at the beginning are the same."""
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


def test_case_is_changed_on_both_sides() -> None:
    assert UpperCase(probability=1)("the cat", "die Straße", Random(0)) == ("THE CAT", "DIE STRASSE")
    assert TitleCase(probability=1)("the NATO cat", "le chat", Random(0)) == ("The NATO Cat", "Le Chat")


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        (("Stop.", "Halt."), ("Stop", "Halt")),
        (("Stop .", "止まれ。"), ("Stop", "止まれ")),
        (("Wait...", "Attends..."), ("Wait", "Attends")),
        (("Really?", "Vraiment !"), ("Really?", "Vraiment !")),
        (("Stop", "Halt."), ("Stop", "Halt.")),
        (("?", "?"), ("?", "?")),
    ],
)
def test_marks_at_the_end_are_removed_if_they_correspond(pair: tuple[str, str], expected: tuple[str, str]) -> None:
    assert RemoveEndPunct(probability=1)(*pair, Random(0)) == expected


@pytest.mark.parametrize("name", TYPOS)
def test_a_typo_changes_one_place_and_is_a_function_of_the_seed(name: str) -> None:
    difference = {"missing_char": -1, "skipped_space": -1, "unichar": -1}
    difference |= dict.fromkeys(("extra_char", "random_space", "repeated_char"), 1)
    results = [TYPOS[name](TEXT, Random(seed)) for seed in range(50)]
    assert results == [TYPOS[name](TEXT, Random(seed)) for seed in range(50)] and len(set(results)) > 1
    assert {len(result) - len(TEXT) for result in results} == {difference.get(name, 0)}
    for result in results:
        same = same_letters(result, TEXT) + same_letters(result[::-1], TEXT[::-1])
        assert result != TEXT and same >= min(len(result), len(TEXT)) - 2
    assert all(typo("…", Random(0)) == "…" for typo in TYPOS.values()), "where no error is possible"


def test_typos_are_in_the_source_only_with_the_probability_of_each_kind() -> None:
    always, never = Typos.parse({"probability": 1, "skipped_space": 1}), Typos.parse({"probability": 1, "unichar": 0})
    src, tgt = always(TEXT, TEXT, Random(1))
    assert src.count(" ") == TEXT.count(" ") - 1 and tgt == TEXT
    assert never(TEXT, TEXT, Random(1)) == (TEXT, TEXT)
    random, tenth = Random(3), Typos.parse({"probability": 1, "repeated_char": 0.1})
    assert 60 < sum(tenth(TEXT, TEXT, random)[0] != TEXT for _ in range(1_000)) < 140


def test_noise_has_words_of_the_lengths_asked_for() -> None:
    noise = Noise(probability=1, min_word_length=3, max_word_length=4, max_words=2)
    texts = [noise.text(Random(seed)) for seed in range(300)]
    words = [text.split(" ") for text in texts]
    assert {len(row) for row in words} == {1, 2} and {len(word) for row in words for word in row} == {3, 4}
    assert len(set(texts)) > 290 and all(word.isalpha() for row in words for word in row)
