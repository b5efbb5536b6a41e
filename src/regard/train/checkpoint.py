"""Checkpoints: folders step-00001000/ with state.safetensors and manifest.json, written completely or not at all."""

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from regard.errors import UserError
from regard.evaluate.validation import validation_order
from regard.files import new_folder, remove_leftovers, write_atomically

_SCHEMA = 1


@dataclass(frozen=True)
class Checkpoint:
    """One saved state. Tensors are read on demand and verified by the manifest's SHA-256."""

    path: Path
    step: int
    manifest: dict[str, Any]

    @property
    def score(self) -> float | None:
        """The validation's rank (BLEU, accuracy or negative loss), or None if this step was not validated."""
        score = self.manifest.get("score")
        return None if score is None else float(score)

    @property
    def order(self) -> tuple[float, float]:
        """Sort key of the validation: greater is better"""
        return validation_order(self.score or 0.0, self.manifest.get("loss", 0.0))

    def tensors(self) -> dict[str, Tensor]:
        try:
            content = (self.path / "state.safetensors").read_bytes()
        except OSError as error:
            raise DamagedCheckpoint(f"{self.path}: state.safetensors cannot be read ({error.strerror})") from None
        if hashlib.sha256(content).hexdigest() != self.manifest["sha256"]:
            raise DamagedCheckpoint(f"{self.path}: state.safetensors does not match its SHA-256")
        return load(content)


class DamagedCheckpoint(UserError):
    """A checkpoint whose tensors are missing or changed."""


class Checkpoints:
    """The checkpoints of a run. The `keep` newest, the `keep` last validated and the `keep` best are kept."""

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder = folder
        self.keep = max(2, keep)

    def save(self, step: int, tensors: Mapping[str, Tensor], manifest: Mapping[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(self.folder)
        with new_folder(self.folder / f"step-{step:08d}", replace=True) as folder:
            content = save({name: tensor.cpu().contiguous() for name, tensor in tensors.items()})
            write_atomically(folder / "state.safetensors", content)
            digest = hashlib.sha256(content).hexdigest()
            tree = {"schema": _SCHEMA, "step": step, "sha256": digest, **manifest}
            write_atomically(folder / "manifest.json", (json.dumps(tree, indent=1) + "\n").encode())
        self._prune()

    def all(self) -> list[Checkpoint]:
        """Return the checkpoints with a readable manifest, oldest first. Their tensors are verified when read."""
        return sorted(self._readable(), key=lambda checkpoint: checkpoint.step)

    def newest(self) -> Iterator[Checkpoint]:
        """Return the checkpoints, newest first."""
        return reversed(self.all())

    def last(self, k: int) -> list[Checkpoint]:
        """Return the last k that were validated, oldest first."""
        return self._validated()[-k:]

    def best(self, k: int) -> list[Checkpoint]:
        """Return the k with the highest score, best first; of equal scores the lower loss is better, NaN is worst."""
        return sorted(self._validated(), key=lambda c: c.order, reverse=True)[:k]

    def unreadable(self) -> list[str]:
        """Return the names of checkpoints whose manifest is damaged. (A folder without one was being deleted.)"""
        readable = {checkpoint.path.name for checkpoint in self.all()}
        names = {path.parent.name for path in self.folder.glob("step-*/manifest.json")}
        return sorted(names - readable)

    def _validated(self) -> list[Checkpoint]:
        return [checkpoint for checkpoint in self.all() if checkpoint.score is not None]

    def _readable(self) -> Iterator[Checkpoint]:
        for path in self.folder.glob("step-*/manifest.json"):
            try:
                manifest = json.loads(path.read_bytes())
                yield Checkpoint(path.parent, int(manifest["step"]), manifest)
            except (ValueError, KeyError, TypeError, OSError, RecursionError):
                continue

    def _prune(self) -> None:
        newest = [c.step for c in self.all()][-self.keep :]
        keep = {*newest, *(c.step for c in self.last(self.keep)), *(c.step for c in self.best(self.keep))}
        for checkpoint in self.all():
            if checkpoint.step not in keep:
                shutil.rmtree(checkpoint.path, ignore_errors=True)


def read_newest(checkpoints: Checkpoints) -> tuple[Checkpoint, dict[str, Tensor], list[str]] | None:
    """Return the newest undamaged checkpoint, its tensors, and messages about damaged ones.

    None if there is no checkpoint at all.
    """
    problems = [f"{name} has a damaged manifest and is not used" for name in checkpoints.unreadable()]
    for checkpoint in checkpoints.newest():
        try:
            return checkpoint, checkpoint.tensors(), problems
        except (DamagedCheckpoint, SafetensorError, OSError, KeyError) as error:
            problems.append(f"{checkpoint.path.name} is damaged and not used ({error})")
    if problems:
        raise UserError(f"{checkpoints.folder}: no checkpoint can be read: {'; '.join(problems)}")
    return None
