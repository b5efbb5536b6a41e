"""The words of the training data: splitting, counting, storing, and what is unknown."""

import pytest

from regard.text import seen_words
from regard.text.seen_words import SeenWords, first_word, split_words

GERMAN = ["Der Hund schläft.", "Ein Hund sieht der Katze zu.", "Katzen schlafen.", "Im Garten sieht der Hund Anna."]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("don't stop_it, 2nd!!", ["don", "'", "t", "stop", "_", "it", ",", "2nd", "!", "!"]),
        ("猫がいる。ok", ["猫", "が", "い", "る", "。", "ok"]),
        ("ที่นี่", ["ที่", "นี่"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("e\u0301te\u0301 \u0301a", ["e\u0301te\u0301", "\u0301", "a"]),
        ("", []),
    ],
)
def test_words_are_runs_of_letters_or_single_characters(text: str, words: list[str]) -> None:
    assert split_words(text) == words
    assert "".join(words) == "".join(text.split())


def test_counts_tell_first_words_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    words = SeenWords.count(GERMAN)
    assert words.counts["Hund"] == (3, 0, 0) and words.counts["Der"] == (0, 1, 0) and words.counts["der"] == (2, 0, 0)
    assert next(iter(words.counts)) == "."
    assert words.starts_with_capital and words.is_cased
    monkeypatch.setattr(seen_words, "_BLOCK", 1)
    assert SeenWords.count(iter(GERMAN)) == words
    assert first_word('– "Ein Hund') == "Ein" and first_word("…") == ""


def test_the_usual_form_is_the_most_frequent_one_inside_texts() -> None:
    words = SeenWords.count([*GERMAN, "Der Garten."] * 3)
    assert words.usual_forms["der"] == "der" and words.usual_forms["hund"] == "Hund"


def test_lower_case_text_is_recognised() -> None:
    words = SeenWords.count(line.lower() for line in GERMAN)
    assert not words.is_cased and not words.starts_with_capital
    assert not SeenWords.count([]).starts_with_capital and SeenWords.count([]).unknown(["a", "a"]) == ("a",)


def test_marks_of_tokenised_text_are_separate() -> None:
    tokenised = SeenWords.count(["a t-shirt , please .", "( why ? )", "in the u.s. .", *["ok ."] * 40])
    assert tokenised.separate_marks == {",", ".", "(", "?", ")"} and tokenised.counts["-"].touching == 1
    assert SeenWords.count(GERMAN).separate_marks == set()


def test_unknown_words_are_those_that_occur_in_no_casing() -> None:
    words = SeenWords.count(GERMAN)
    assert words.unknown(split_words("DER zebra HUND , zebra Zebra!")) == ("zebra", ",", "Zebra", "!")


def test_words_are_stored_as_lines() -> None:
    words = SeenWords.count(GERMAN)
    assert SeenWords.from_bytes(words.to_bytes()) == words
    assert list(SeenWords.from_bytes(words.to_bytes()).counts) == list(words.counts)
    assert SeenWords.from_bytes(b"").counts == {}
    for damaged in (b"a\t1\t2\n", b"a\t1\t2\tx\n", b"a\t1\t2\t3", b"\xff\t1\t2\t3\n"):
        with pytest.raises(ValueError, match=r"."):
            SeenWords.from_bytes(damaged)


def test_only_the_most_frequent_words_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["a b", "a c", "a b", "a d e f g h"]
    monkeypatch.setattr(seen_words, "MAX_WORDS", 2)
    assert list(SeenWords.count(texts).counts) == ["a", "b"]
    monkeypatch.setattr(seen_words, "_MAX_COUNTED", 4)
    monkeypatch.setattr(seen_words, "_BLOCK", 2)
    assert list(SeenWords.count(texts).counts) == ["a", "b"]


def test_words_of_earlier_training_are_known_but_do_not_decide_about_case_and_punctuation() -> None:
    earlier = SeenWords.count(["the old cat sat , said may ."] * 100 + ["Only here !"])
    now = SeenWords.count(["In May, the cat sat.", "The dog sat, in May."])
    both = now.with_earlier(earlier)
    assert {"old", "Only", "!", "May", "dog"} <= both.counts.keys()
    assert all(both.counts[word] == count for word, count in now.counts.items())
    assert earlier.separate_marks >= {",", "."} and both.separate_marks.isdisjoint({",", "."})
    assert not earlier.is_cased and both.is_cased and both.starts_with_capital
    assert both.usual_form("may") == "May"
    assert now.with_earlier(now).counts == now.counts
