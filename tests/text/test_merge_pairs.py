"""Byte-pair merges with a heap give what the definition gives."""

import random
from itertools import pairwise

from regard.text.merge_pairs import merge_pairs


def merge_by_definition(symbols: list[str], ranks: dict[tuple[str, str], int]) -> list[str]:
    """Merge the leftmost pair of the lowest rank, again and again."""
    while pairs := [(ranks[pair], i) for i, pair in enumerate(pairwise(symbols)) if pair in ranks]:
        _, i = min(pairs)
        symbols = [*symbols[:i], symbols[i] + symbols[i + 1], *symbols[i + 2 :]]
    return symbols


def test_merges_are_those_of_the_definition() -> None:
    random.seed(0)
    for _ in range(300):
        known = list("abc")
        ranks: dict[tuple[str, str], int] = {}
        for _ in range(12):
            pair = random.choice(known), random.choice(known)
            ranks.setdefault(pair, len(ranks))
            known.append("".join(pair))
        word = random.choices("abc", k=random.randint(0, 20))
        assert merge_pairs(word, ranks) == merge_by_definition(word, ranks)
