from regard.text.words import is_unknown, join_pieces, word_indices


def test_word_indices_of_pieces_characters_and_words() -> None:
    assert word_indices(("▁the", "▁wit", "ch", "</s>")) == [0, 1, 1, -1]
    assert word_indices(("a", "b", " ", "c", "</s>")) == [0, 0, -1, 1, -1]  # characters
    assert word_indices(("▁a", "▁<unk>", "▁c", "</s>")) == [0, 1, 2, -1]  # words
    assert word_indices(("▁Zy", "<unk>", "▁c", "</s>")) == [0, 0, 1, -1]  # an unknown character inside a word
    assert word_indices(("▁", "<0xC3>", "<0xA9>", "▁x", "</s>")) == [0, 0, 0, 1, -1]  # bytes


def test_pieces_join_to_a_word() -> None:
    assert join_pieces(("▁wit", "ch")) == "witch" and join_pieces(("a", "b")) == "ab"
    assert is_unknown("▁<unk>") and is_unknown("<unk>") and not is_unknown("▁a")
