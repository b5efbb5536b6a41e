"""Special token ids, defined once for every tokenizer and model, and the character that starts a word."""

PAD, UNK, BOS, EOS, SEP, MASK = range(6)
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>", "<sep>", "<mask>")
assert len(SPECIALS) == MASK + 1

NEVER_GENERATED = (PAD, BOS, SEP, MASK)
"""Special tokens that no output contains"""

WORD_START = "▁"
"""First character of a piece that starts a word; SentencePiece writes a space like this."""
