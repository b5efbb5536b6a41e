"""Text that the verbs read."""

import pytest

from regard.cli.input import decode_argument, input_texts, parse_increasing
from regard.errors import UserError


def test_arguments_are_utf8_in_any_locale() -> None:
    assert decode_argument("ž") == "ž"
    assert decode_argument("\udcff") == "\ufffd", "a byte that is not UTF-8"
    assert list(input_texts(["a", "\udcff"])) == ["a", "\ufffd"]


def test_lists_of_increasing_numbers() -> None:
    assert parse_increasing("5,10, 20", "--lengths") == (5, 10, 20)
    for text in ("", "5,", "10,5", "5,5", "0,5", "a", "-1,2"):
        with pytest.raises(UserError, match=r"--lengths .*: give increasing numbers"):
            parse_increasing(text, "--lengths")
