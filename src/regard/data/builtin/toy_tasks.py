"""Toy tasks on lines of letters: copy, reverse, sort."""

import random
from collections.abc import Callable, Sequence

from regard.errors import UserError

TASKS: dict[str, Callable[[Sequence[str]], list[str]]] = {
    "copy": list,
    "reverse": lambda letters: list(reversed(letters)),
    "sort": sorted,
}
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def toy_pairs(
    task: str, n: int, *, lengths: tuple[int, int] = (3, 10), n_letters: int = 26, seed: int = 1
) -> list[tuple[str, str]]:
    """Return `n` pairs such as ("c a b", "a b c").

    Letters are separated by spaces. Lengths are drawn uniformly from `lengths`, bounds included.
    """
    if task not in TASKS:
        raise UserError(f"toy task '{task}' is unknown; choose one of {', '.join(TASKS)}")
    generator = random.Random(f"{task} {seed}")
    pairs = []
    for _ in range(n):
        letters = generator.choices(LETTERS[:n_letters], k=generator.randint(*lengths))
        pairs.append((" ".join(letters), " ".join(TASKS[task](letters))))
    return pairs
