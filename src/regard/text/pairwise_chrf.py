"""chrF of every text of a list against every other one, as sacreBLEU computes it for single sentences."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_ORDER = 6  # longest n-grams
_BETA = 2  # recall counts β times as much as precision

Counts = NDArray[np.float32]


def pairwise_chrf(texts: Sequence[str]) -> NDArray[np.float64]:
    """Return [n, n]: chrF2 of text i as the hypothesis and text j as the reference, from 0 to 100.

    >>> pairwise_chrf(["the cat", "the cat", "a dog"]).round(1).tolist()
    [[100.0, 100.0, 5.7], [100.0, 100.0, 5.7], [4.5, 4.5, 100.0]]
    """
    characters = [np.array([ord(c) for c in "".join(text.split())], dtype=np.int64) for text in texts]
    precision, recall, n_orders = (np.zeros((len(texts), len(texts))) for _ in range(3))
    grams = characters
    for n in range(1, _ORDER + 1):
        if n > 1:
            grams = [_extended(before, own[n - 1 :]) for before, own in zip(grams, characters, strict=True)]
        grams = _numbered(grams)
        totals = np.array([len(row) for row in grams], dtype=np.float64)
        matches = _matches(_counts(grams))
        counts = (totals[:, None] > 0) & (totals > 0)  # orders that both texts have
        precision += np.where(counts, matches / np.maximum(totals, 1)[:, None], 0.0)
        recall += np.where(counts, matches / np.maximum(totals, 1), 0.0)
        n_orders += counts
    precision, recall = precision / np.maximum(n_orders, 1), recall / np.maximum(n_orders, 1)
    weight = _BETA**2
    return 100 * (1 + weight) * precision * recall / np.maximum(weight * precision + recall, 1e-300)


def _extended(grams: NDArray[np.int64], characters: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return numbers of the n-grams that extend (n − 1)-grams by the characters that follow them."""
    n = min(len(grams), len(characters))
    return (grams[:n] << 21) | characters[:n]  # a code point has 21 bits


def _numbered(rows: Sequence[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    """Replace the numbers of all rows by 0, 1, 2 …, equal ones by equal ones."""
    _, numbered = np.unique(np.concatenate([*rows, np.empty(0, np.int64)]), return_inverse=True)
    return np.split(numbered, np.cumsum([len(row) for row in rows])[:-1])


def _counts(rows: Sequence[NDArray[np.int64]]) -> Counts:
    """Return how often each number occurs in each row [rows, numbers]."""
    width = max((int(row.max()) + 1 for row in rows if len(row)), default=0)
    return np.stack([np.bincount(row, minlength=width) for row in rows]).astype(np.float32)


def _matches(counts: Counts) -> Counts:
    """Return the matches of all pairs [n, n]: Σ_g min(c_ig, c_jg) = Σ_t Σ_g [c_ig ≥ t] · [c_jg ≥ t]"""
    matches, t = np.zeros((len(counts), len(counts)), dtype=np.float32), 1
    while counts.size:
        present = (counts >= t).astype(np.float32)
        matches += present @ present.T
        t += 1
        counts = counts[:, counts.max(0) >= t]
    return matches
