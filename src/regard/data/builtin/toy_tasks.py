"""Toy tasks of any length: copy, reverse and sort a line of letters."""

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
    """`n` pairs such as ("c a b", "a b c"), letters between spaces, lengths uniform within the bounds."""
    if task not in TASKS:
        raise UserError(f"toy task '{task}' is unknown; choose one of {', '.join(TASKS)}")
    generator = random.Random(f"{task} {seed}")
    pairs = []
    for _ in range(n):
        letters = generator.choices(LETTERS[:n_letters], k=generator.randint(*lengths))
        pairs.append((" ".join(letters), " ".join(TASKS[task](letters))))
    return pairs
