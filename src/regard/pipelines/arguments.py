"""Checks of the arguments of pipelines, which people call from Python without type checkers."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from regard.errors import UserError

T = TypeVar("T")


def check_iterable(texts: Iterable[T], call: str) -> Iterable[T]:
    """Return what the function `call` was given for its texts; refuse a single text and what has no items."""
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        raise UserError(f"{call} takes a list of texts; write {call}([text])")
    return texts


def check_texts(texts: Iterable[str], call: str) -> list[str]:
    """Return the texts that the function `call` was given as a list; refuse anything else."""
    checked = list(check_iterable(texts, call))
    for i, text in enumerate(checked):
        if not isinstance(text, str):
            raise UserError(f"{call}: texts[{i}] is of type {type(text).__name__}, not str")
    return checked


def check_text(name: str, text: object) -> str:
    """Return the argument `name`; refuse anything but a text."""
    if not isinstance(text, str):
        raise UserError(f"{name} must be a text, not a value of type {type(text).__name__}")
    return text


def check_count(name: str, value: object, minimum: int) -> int:
    """Return the argument `name`; refuse anything but a whole number of at least `minimum`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise UserError(f"{name} must be a whole number of at least {minimum}")
    return value


def check_folder(folder: object) -> Path:
    """Return the path of a model directory; refuse anything that cannot be one."""
    if not isinstance(folder, str | os.PathLike):
        raise UserError(f"a model directory is a path, not a value of type {type(folder).__name__}")
    return Path(os.fsdecode(folder))
