"""Random rows of a corpus of any size, without a permutation of all rows."""

import numpy as np
from numpy.typing import NDArray

_BLOCK = 1 << 16
_MAX_SHUFFLED = 1 << 24  # rows that are shuffled to choose some of them, which takes 128 MB


def sample_rows(n: int, size: int, seed: int) -> NDArray[np.int64]:
    """Return `size` of n rows in increasing order, each with the same probability; all rows if there are fewer."""
    if n <= size:
        return np.arange(n)
    generator = np.random.Generator(np.random.Philox(key=seed))
    sizes = np.full(-(-n // _BLOCK), _BLOCK)
    sizes[-1] = n - _BLOCK * (len(sizes) - 1)
    counts = generator.multivariate_hypergeometric(sizes, size, method="marginals")
    return np.concatenate(
        [
            block * _BLOCK + np.sort(generator.permutation(of_block)[:count])
            for block, (of_block, count) in enumerate(zip(sizes.tolist(), counts.tolist(), strict=True))
        ]
    )


def shuffled_rows(n: int, size: int, seed: int) -> NDArray[np.int64]:
    """Return `size` of n rows in random order."""
    generator = np.random.Generator(np.random.Philox(key=seed))
    if n <= _MAX_SHUFFLED:
        return generator.permutation(n)[:size]
    return generator.choice(n, size, replace=False)
