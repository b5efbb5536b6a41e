"""A folder with a model of another program: its files are read with bounds, and never from outside of the folder."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from regard.errors import UserError
from regard.manifest import check_regular, read_regular

_MIB = 2**20
_MAX_CONFIG = 4 * _MIB
_MAX_TOKENIZER = 256 * _MIB
MAX_YAML = 2**16
"""Bytes of settings in YAML, whose parser is slow"""

T = TypeVar("T")


class ModelFolder:
    """The files of a model, by name."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            raise UserError(f"{path}: not a folder; give the folder that holds the model's files")
        self._root = self.path.resolve()

    def __str__(self) -> str:
        return str(self.path)

    def has(self, name: str) -> bool:
        return (self.path / name).exists() or (self.path / name).is_symlink()

    def names(self, *patterns: str) -> list[str]:
        """Return the names of files that match a pattern, in the order of the patterns."""
        return [path.name for pattern in patterns for path in sorted(self.path.glob(pattern))]

    def file(self, name: str) -> Path:
        """Return the path of a file, after a check that it is a file and lies in the folder."""
        path = self.path / name
        try:
            resolved = path.resolve()
        except (RuntimeError, ValueError):  # a link to itself, or a name with a null byte
            raise UserError(f"{str(path)!r:.200}: cannot be the path of a file") from None
        if not (resolved.is_relative_to(self._root) or self._is_cached(resolved)):
            raise UserError(f"{path}: leads out of the folder; copy the files of the model into one folder")
        check_regular(path)
        return path

    def read(self, name: str, limit: int = _MAX_TOKENIZER) -> bytes:
        """Return the content of a file of at most `limit` bytes."""
        path = self.file(name)
        if path.stat().st_size > limit:
            raise UserError(f"{path}: larger than {limit // _MIB} MiB, which no such file is; is it the right one?")
        return read_regular(path)

    def config(self, name: str = "config.json") -> "JsonObject":
        """Read a small JSON file with settings."""
        return self.json(name, _MAX_CONFIG)

    def json(self, name: str, limit: int = _MAX_TOKENIZER) -> "JsonObject":
        """Read a JSON file that holds an object."""
        content = self.read(name, limit)
        try:
            tree = json.loads(content)
            if rb"\ud" in content.lower():  # half of a character cannot be written again
                json.dumps(tree, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            tree = None
        if not isinstance(tree, dict):
            raise UserError(f"{self.path / name}: not a JSON object; the file is damaged")
        return JsonObject(tree, str(self.path / name))

    def _is_cached(self, path: Path) -> bool:
        """Whether this is a file of the Hugging Face cache, whose folder `snapshots/…` links to `blobs`."""
        return self._root.parent.name == "snapshots" and path.parent == self._root.parents[1] / "blobs"


class JsonObject:
    """A JSON object whose values are checked when they are read; `where` names it in errors."""

    def __init__(self, tree: Mapping[str, Any], where: str) -> None:
        self.tree = tree
        self.where = where

    def get(self, key: str, kind: type[T], default: T | None = None) -> T:
        """Return a value of this type. If it is missing or null it is the default, or an error if there is none."""
        value = self.tree.get(key)
        if value is None:
            if default is None:
                raise UserError(f"{self.where}: '{key}' is missing")
            return default
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value) if abs(value) < 2**63 else float("inf")  # which no option accepts
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise UserError(f"{self.where}: '{key}' is not of type {kind.__name__}")
        return value

    def number(self, key: str, default: int | None = None) -> int:
        return self.get(key, int, default)

    def flag(self, key: str, default: bool = False) -> bool:
        return self.get(key, bool, default)

    def text(self, key: str, default: str | None = None) -> str:
        return self.get(key, str, default)

    def optional(self, key: str, kind: type[T]) -> T | None:
        """Return a value of this type, or None if it is missing or null."""
        return None if self.tree.get(key) is None else self.get(key, kind)

    def id(self, key: str) -> int | None:
        """Return the id of a token, the first if there are several; None: there is none"""
        value = self.tree.get(key)
        if isinstance(value, list) and value:
            value = value[0]
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
            raise UserError(f"{self.where}: '{key}' is not the id of a token")
        return value

    def require(self, key: str, *allowed: object, default: object = None) -> None:
        """Raise a UserError unless the value, or the default where it is missing, is one of those allowed."""
        value = self.tree.get(key)
        value = default if value is None else value
        if value not in allowed:
            raise UserError(f"{self.where}: '{key}' is {_shown(value)}, but only {_listed(allowed)} can be imported")


def _shown(value: object) -> str:
    return f"{value!r:.60}" if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"


def _listed(values: tuple[object, ...]) -> str:
    return " or ".join(repr(value) for value in values)
