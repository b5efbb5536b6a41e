"""Byte-pair encoding of one word: the best merge is made first, until none is left."""

import heapq
from collections.abc import Mapping, Sequence


def merge_pairs(symbols: Sequence[str], ranks: Mapping[tuple[str, str], int]) -> list[str]:
    """Merge neighbours in the order of their ranks, the lowest first and of equal ones the leftmost.

    >>> merge_pairs("abab", {("a", "b"): 0, ("ab", "ab"): 1})
    ['abab']
    """
    words: list[str] = list(symbols)
    following = [*range(1, len(words)), -1]
    before = [-1, *range(len(words) - 1)]
    heap = [(rank, i) for i in range(len(words) - 1) if (rank := ranks.get((words[i], words[i + 1]))) is not None]
    heapq.heapify(heap)
    while heap:
        rank, i = heapq.heappop(heap)
        j = following[i]
        if j < 0 or not words[i] or ranks.get((words[i], words[j])) != rank:  # one of the two was merged meanwhile
            continue
        words[i], words[j] = words[i] + words[j], ""
        following[i] = following[j]
        if following[j] >= 0:
            before[following[j]] = i
        for left in (before[i], i):
            if left >= 0 and following[left] >= 0:
                new = ranks.get((words[left], words[following[left]]))
                if new is not None:
                    heapq.heappush(heap, (new, left))
    return [word for word in words if word]
