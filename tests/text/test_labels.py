from regard.text.labels import MAX_LABEL_LENGTH, readable_piece, token_labels


def test_a_piece_that_continues_a_word_has_a_hyphen() -> None:
    pieces = ("▁house", "s", "</s>", "▁", "<0xE2>")
    assert [readable_piece(piece) for piece in pieces] == ["house", "-s", "</s>", "▁", "<0xE2>"]


def test_white_space_and_control_characters_are_made_printable() -> None:
    assert token_labels(["a", " ", "\n", "\x07"]) == ["a", "␣", "↵", "<0x07>"]
    assert token_labels(["▁a", "\n", "\x07", "s"]) == ["a", "↵", "<0x07>", "-s"]


def test_long_labels_are_cut() -> None:
    [label] = token_labels(["abcde" * 10])
    assert len(label) == MAX_LABEL_LENGTH and label.endswith("…") and label.startswith("abcdeabcde")
