"""Reads model directories of older formats: each format change is one step from a version to the next.

Format 1: `schema_version` (or no version at all); other names for some options and tensors.
Format 2: `format_version`, `regard_version`, and the present names.
Format 3: a manifest.json with the SHA-256 of every file.
"""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from regard.errors import UserError

T = TypeVar("T")

FORMAT_VERSION = 3
"""Increased when older versions of regard can no longer read the directory; CHANGELOG.md says so."""

FIRST_WITH_MANIFEST = 3
"""From this version on, a directory without a manifest is damaged."""

_TENSOR_NAMES_1_TO_2 = (
    (r"\baround_(mixer|cross|feedforward)\b", r"\1_residual"),
    (r"\bahead\b", "left_to_right"),
    (r"\bback\b", "right_to_left"),
    (r"^decoder\.first\b", "decoder.initial_state"),
    (r"^decoder\.score\b", "decoder.attention.score"),
    (r"\bscore\.place\b", "score.position_scores"),
    (r"^encoder\.eyes\b", "encoder.stem"),
    (r"^encoder\.places\b", "encoder.positions"),
)


def format_version(config: Mapping[str, Any], where: str) -> int:
    """Return the format version of a config.json; refuse one that this version of regard cannot read."""
    version = config.get("format_version", config.get("schema_version", 1))
    if not isinstance(version, int) or version < 1:
        raise UserError(f"{where}: format_version is {version!r}; it must be a positive number")
    if version > FORMAT_VERSION:
        raise UserError(
            f"{where}: written by a newer regard (format {version}, this one reads up to {FORMAT_VERSION}); "
            "upgrade regard"
        )
    return version


def upgrade_config(config: Mapping[str, Any], version: int) -> dict[str, Any]:
    """Bring the content of config.json to the present format."""
    upgraded = dict(config)
    if version == 1:
        upgraded.pop("schema_version", None)
        upgraded["regard_version"] = upgraded.pop("regard", "unknown")
        upgraded["model"] = _rename_key(upgraded.get("model"), "eyes", "stem")
    upgraded["format_version"] = FORMAT_VERSION
    return upgraded


def upgrade_names(tensors: Mapping[str, T], version: int) -> dict[str, T]:
    """Bring the names of the weights to the present format."""
    if version > 1:
        return dict(tensors)
    return {_upgrade_name(name): tensor for name, tensor in tensors.items()}


def _upgrade_name(name: str) -> str:
    for pattern, replacement in _TENSOR_NAMES_1_TO_2:
        name = re.sub(pattern, replacement, name)
    return name


def _rename_key(tree: Any, old: str, new: str) -> Any:
    """Rename a key wherever it occurs in nested mappings."""
    if not isinstance(tree, Mapping):
        return tree
    return {new if key == old else key: _rename_key(value, old, new) for key, value in tree.items()}
