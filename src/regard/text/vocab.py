"""Special token ids, defined once for every tokenizer and model, and the character that starts a word."""

from collections.abc import Sequence

PAD, UNK, BOS, EOS, SEP, MASK = range(6)
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>", "<sep>", "<mask>")
assert len(SPECIALS) == MASK + 1

NEVER_GENERATED = (PAD, BOS, SEP, MASK)
"""Special tokens that no output contains"""

WORD_START = "▁"
"""First character of a piece that starts a word; SentencePiece writes a space like this."""


def without_specials(ids: Sequence[int], keep_unknown: bool = False) -> list[int]:
    """Return the ids of ordinary tokens, and those of unknown ones if they are kept."""
    first = len(SPECIALS)
    return [int(i) for i in ids if i >= first or (keep_unknown and i == UNK)]
