"""Text that verbs read: command-line arguments and standard input."""

import os
import sys
from collections.abc import Iterator

from regard.errors import UserError


def decode_argument(argument: str) -> str:
    """Return an argument decoded as UTF-8, whatever the locale; invalid bytes are replaced."""
    return os.fsencode(argument).decode("utf-8", errors="replace")


def input_texts(texts: list[str] | None) -> Iterator[str]:
    """Yield the values of --text or, without any, the lines of standard input."""
    return map(decode_argument, texts) if texts else stdin_lines()


def stdin_lines() -> Iterator[str]:
    """Yield the lines of standard input, decoded as UTF-8; invalid bytes are replaced."""
    if sys.stdin is None:
        raise UserError("there is no standard input; give --text")
    for raw in sys.stdin.buffer:
        yield raw.decode("utf-8", errors="replace").rstrip("\r\n")


def stdin_is_terminal() -> bool:
    """Tell whether a person types the input line by line."""
    return sys.stdin is not None and sys.stdin.isatty()


def parse_increasing(text: str, option: str) -> tuple[int, ...]:
    """Parse `5,10,20`: positive whole numbers, each larger than the one before."""
    numbers = [int(part) for part in text.split(",") if part.strip().isdecimal()]
    if len(numbers) != text.count(",") + 1 or numbers != sorted(set(numbers)) or numbers[0] < 1:
        raise UserError(f"{option} {text}: give increasing numbers separated by commas, for example 5,10,20")
    return tuple(numbers)
