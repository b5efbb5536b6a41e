"""Texts split into sentences and put together again."""

import pytest

from regard.text.sentences import SplitText

PARAGRAPHS = "  One here. Two here!  Three?\n\n\tFour is here.\r\nFive\n"


@pytest.mark.parametrize("language", ["en", "de", "ja", "src", "xx", "", "zz-unknown"])
@pytest.mark.parametrize(
    "text",
    [
        PARAGRAPHS,
        "",
        " \n ",
        "the cat sat",
        "a man . he sat .",
        "1. One. 2. Two.",
        "1) One.\n(2) Two.",
        "...",
        "मैं गया। वह आया।",
    ],
)
def test_the_sentences_and_what_is_between_them_are_the_text(text: str, language: str) -> None:
    split = SplitText.of(text, language)
    assert split.join(split.sentences) == text
    assert all(sentence == sentence.strip() != "" for sentence in split.sentences)


def test_lines_and_sentences_are_separated() -> None:
    split = SplitText.of(PARAGRAPHS, "en")
    assert split.sentences == ("One here.", "Two here!", "Three?", "Four is here.", "Five")
    assert split.gaps == ("  ", " ", "  ", "\n\n\t", "\r\n", "\n")
    assert SplitText.of("Dr. Smith came at 5 p.m. He left.", "en").sentences == ("Dr. Smith came at 5 p.m.", "He left.")
    assert SplitText.of("the cat sat", "en") == SplitText(("the cat sat",), ("", ""))


def test_parts_without_letters_are_sentences_only_if_there_is_nothing_else() -> None:
    assert SplitText.of("1. One. 2. Two.", "en").sentences == ("One.", "Two.")
    assert SplitText.of("1) One. (2) Two.\n[3.1]  Three (4) four.", "en").sentences == (
        "One.",
        "Two.",
        "Three (4) four.",
    )
    assert SplitText.of("1 2 3", "en").sentences == ("1 2 3",) and SplitText.of("...", "en").sentences == ("...",)


def test_spaces_between_sentences_follow_the_script() -> None:
    japanese = SplitText.of("猫がいます。犬がいます。", "ja")
    assert len(japanese.sentences) == 2
    assert japanese.join(["There is a cat.", "There is a dog."]) == "There is a cat. There is a dog."
    english = SplitText.of("There is a cat. There is a dog.\nYes.", "en")
    assert english.join(["猫がいます。", "犬がいます。", "はい。"]) == "猫がいます。犬がいます。\nはい。"
    assert (
        english.join(["猫 が い ます 。", "犬 が い ます 。", "はい 。"])
        == "猫 が い ます 。 犬 が い ます 。\nはい 。"
    )


def test_a_line_never_becomes_two() -> None:
    split = SplitText.of("One.\u2028Two.\x0b\x85 Three.\rFour.", "en")
    assert len(split.join(["x"] * len(split.sentences)).splitlines()) == 1


def test_half_of_a_surrogate_pair_is_replaced() -> None:
    assert SplitText.of("One \ud800. Two.", "en").sentences == ("One ?.", "Two.")
