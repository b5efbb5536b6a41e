"""Ways to damage a file."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import yaml
from safetensors.numpy import load, save

from regard.manifest import MANIFEST, Checksum

DEEP = "[" * 100_000 + "]" * 100_000
HUGE = (10**9, 10**30, -(2**63), 1e308)
OTHER_TYPES = (None, True, "x", -1, 0.5, [], {}, [[]])


class NotPossible(Exception):
    """This damage does not fit this file, or would change nothing."""


# ---- Bytes ----


def flip_bit(content: bytes, random: Random) -> bytes:
    place, bit = random.randrange(len(content)), random.randrange(8)
    return content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]


def random_bytes(content: bytes, random: Random) -> bytes:
    start, end = _range(content, random)
    return content[:start] + random.randbytes(end - start) + content[end:]


def zeros(content: bytes, random: Random) -> bytes:
    start, end = _range(content, random)
    return content[:start] + bytes(end - start) + content[end:]


def truncate(content: bytes, random: Random) -> bytes:
    return content[: random.randrange(len(content))]


def append(content: bytes, random: Random) -> bytes:
    return content + random.choice([b"\0", b"\n", b" ", random.randbytes(random.randint(1, 5000))])


def empty(content: bytes, random: Random) -> bytes:
    return b""


def _range(content: bytes, random: Random) -> tuple[int, int]:
    start = random.randrange(len(content))
    return start, min(len(content), start + random.choice([1, 8, 64, 512, 4096]))


BYTES = {f.__name__.replace("_", " "): f for f in (flip_bit, random_bytes, zeros, truncate, append, empty)}

# ---- What the name stands for ----


def delete(path: Path) -> None:
    path.unlink()


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replace_by_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def replace_by_dangling_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("no-such-folder/no-such-file")


NAMES = {
    f.__name__.replace("_", " "): f for f in (delete, replace_by_folder, replace_by_fifo, replace_by_dangling_link)
}

# ---- JSON and YAML ----


def change_number(parent: Any, key: Any, random: Random) -> None:
    _require(_is_number(parent[key]))
    parent[key] = random.choice([parent[key] + 1, parent[key] - 1, -parent[key] - 1, parent[key] * 2 + 1, 0.5, 0])


def huge_number(parent: Any, key: Any, random: Random) -> None:
    _require(_is_number(parent[key]))
    parent[key] = random.choice(HUGE)


def remove_key(parent: Any, key: Any, random: Random) -> None:
    del parent[key]


def wrong_type(parent: Any, key: Any, random: Random) -> None:
    parent[key] = random.choice([value for value in OTHER_TYPES if type(value) is not type(parent[key])])


def deep_nesting(parent: Any, key: Any, random: Random) -> None:
    parent[key] = "@deep"


EDITS = {f.__name__.replace("_", " "): f for f in (change_number, huge_number, remove_key, wrong_type, deep_nesting)}


def edit_tree(path: Path, kind: str, random: Random) -> str:
    """Change one value of a JSON, JSON-lines or YAML file; return which."""
    lines = path.read_text(encoding="utf-8").splitlines()
    number = random.randrange(len(lines)) if path.suffix == ".jsonl" and lines else None
    text = path.read_text(encoding="utf-8") if number is None else lines[number]
    try:
        tree = yaml.safe_load(text) if path.suffix == ".yaml" else json.loads(text)
    except ValueError:
        raise NotPossible from None
    places = list(_places(tree))
    _require(bool(places))
    parent, key = random.choice(places)
    before = parent[key]
    EDITS[kind](parent, key, random)
    after = parent[key] if kind != "remove key" else "removed"
    text = yaml.safe_dump(tree, sort_keys=False) if path.suffix == ".yaml" else json.dumps(tree, ensure_ascii=False)
    text = text.replace('"@deep"', DEEP).replace("'@deep'", DEEP)
    if number is not None:
        lines[number] = text
        text = "\n".join(lines)
    path.write_text(text + "\n", encoding="utf-8")
    return f"{kind}: {key} from {str(before)[:40]} to {str(after)[:40]}"


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each value of a tree as (container, key)."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield tree, key
        yield from _places(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _require(condition: bool) -> None:
    if not condition:
        raise NotPossible


# ---- Tensors ----


def not_a_number(tensor: np.ndarray, random: Random) -> np.ndarray:
    _require(tensor.dtype.kind == "f" and tensor.size > 0)
    tensor = tensor.copy()
    tensor.flat[random.randrange(tensor.size)] = random.choice([np.nan, np.inf])
    return tensor


def wrong_shape(tensor: np.ndarray, random: Random) -> np.ndarray:
    _require(tensor.size > 1)
    return random.choice([tensor.reshape(-1)[:-1], tensor.reshape(-1, 1, 1), tensor[:1], tensor[:0]])


def wrong_dtype(tensor: np.ndarray, random: Random) -> np.ndarray:
    with np.errstate(all="ignore"):
        return tensor.astype(
            random.choice([t for t in (np.int64, np.float16, np.float64, np.bool_) if t != tensor.dtype])
        )


TENSORS = {f.__name__.replace("_", " "): f for f in (not_a_number, wrong_shape, wrong_dtype)}


def edit_tensor(path: Path, kind: str, random: Random) -> str:
    """Change one tensor of a safetensors file; return which."""
    tensors = load(path.read_bytes())
    name = random.choice(sorted(tensors))
    if kind == "remove tensor":
        del tensors[name]
    else:
        tensors[name] = np.ascontiguousarray(TENSORS[kind](tensors[name], random))
    path.write_bytes(save(tensors, metadata={"format": "pt"}))
    return f"{kind}: {name}"


# ---- Any damage to a file ----


def kinds(path: Path) -> list[str]:
    """Return the damages that fit a file."""
    tree = [*EDITS] if path.suffix in (".json", ".jsonl", ".yaml") else []
    return [*BYTES, *NAMES, "swap", *tree]


def damage(path: Path, kind: str, random: Random, others: list[Path]) -> str:
    """Damage a file and say how. `others` are the same file of other runs. Raises NotPossible if it cannot be done.

    "swap folder" swaps the file and all others in its folder, so that they fit each other.
    """
    content = path.read_bytes()
    how = kind
    if kind in NAMES:
        NAMES[kind](path)
        return how
    _require(bool(content) or kind in ("append", "swap", "swap folder"))
    if kind in BYTES:
        path.write_bytes(BYTES[kind](content, random))
    elif kind.startswith("swap"):
        _require(bool(others))
        other = random.choice(others)
        folder = other.parent.iterdir() if kind == "swap folder" else [other]
        for file in folder:
            shutil.copy(file, path.parent)
        how = f"{kind} with {other}"
    else:
        how = (edit_tree if kind in EDITS else edit_tensor)(path, kind, random)
    _require(path.read_bytes() != content)
    return how


def forge(path: Path, kind: str, random: Random) -> str:
    """Change a file as `damage` does, and make the manifest of its folder fit the changed file."""
    how = damage(path, kind, random, [])
    manifest = next(folder / MANIFEST for folder in path.parents if (folder / MANIFEST).is_file())
    try:
        tree = json.loads(manifest.read_bytes())
        tree.pop("checksum", None)
        if path != manifest:
            content = path.read_bytes()
            tree["files"][str(path.relative_to(manifest.parent))] = asdict(Checksum.of(content))
        tree["checksum"] = hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()
        manifest.write_text(json.dumps(tree))
    except (RecursionError, AttributeError):  # a manifest that cannot be read needs no checksum
        pass
    return how
