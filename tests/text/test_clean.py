import sys

import pytest

from regard.text.clean import clean, needs_cleaning


@pytest.mark.parametrize("text", ["a b", "é", "", "日本 語", "a\nb", "one\ntwo three"])
def test_lines_that_need_no_cleaning(text: str) -> None:
    assert not needs_cleaning(text)
    assert [clean(line) for line in text.split("\n")] == text.split("\n")


@pytest.mark.parametrize("text", ["a  b", " a", "a ", "a\n b", "a \nb", "\ufeffa", "a\u3000b", "a\r\nb", "a\x1fb"])
def test_lines_that_need_cleaning(text: str) -> None:
    assert needs_cleaning(text)
    assert [clean(line) for line in text.split("\n")] != text.split("\n")


def test_every_kind_of_white_space_needs_cleaning() -> None:
    spaces = [c for c in map(chr, range(sys.maxunicode + 1)) if c.isspace() and c not in " \n"]
    assert all(needs_cleaning(f"a{space}b") and clean(f"a{space}b") == "a b" for space in spaces)


def test_half_a_surrogate_pair_is_replaced() -> None:
    assert clean("a\ud800b é") == "a?b é"
