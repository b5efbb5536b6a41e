"""The special ids, defined once for every tokenizer and model."""

PAD, UNK, BOS, EOS, SEP, MASK = range(6)
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>", "<sep>", "<mask>")
assert len(SPECIALS) == MASK + 1
