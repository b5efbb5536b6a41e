"""Checkpoints: step-00001000/{state.safetensors, manifest.json}, whole or not there at all, no pickle."""

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
from regard.files import new_folder, remove_leftovers, write_atomically

_SCHEMA = 1


@dataclass(frozen=True)
class Checkpoint:
    """One saved moment; tensors are read on demand and checked against the manifest's SHA-256."""

    path: Path
    step: int
    manifest: dict[str, Any]

    @property
    def score(self) -> float | None:
        """Validation BLEU at this step, if it was validated."""
        score = self.manifest.get("score")
        return None if score is None else float(score)

    def tensors(self) -> dict[str, Tensor]:
        try:
            content = (self.path / "state.safetensors").read_bytes()
        except OSError as error:
            raise DamagedCheckpoint(f"{self.path}: state.safetensors cannot be read ({error.strerror})") from None
        if hashlib.sha256(content).hexdigest() != self.manifest["sha256"]:
            raise DamagedCheckpoint(f"{self.path}: state.safetensors does not match its SHA-256")
        return load(content)


class DamagedCheckpoint(UserError):
    """A checkpoint that must not be used."""


class Checkpoints:
    """The checkpoints of a run. Keeps the `keep` newest and the `keep` best."""

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
        """Every readable manifest, oldest first; the tensors are checked when they are read."""
        return sorted(self._found(), key=lambda checkpoint: checkpoint.step)

    def newest(self) -> Iterator[Checkpoint]:
        """Newest first: take the first whose tensors can be read."""
        return reversed(self.all())

    def last(self, k: int) -> list[Checkpoint]:
        return [c for c in self.all() if c.score is not None][-k:]

    def best(self, k: int) -> list[Checkpoint]:
        """The k of highest score, best first; of equal ones those of lower loss."""
        scored = [c for c in self.all() if c.score is not None]
        return sorted(scored, key=lambda c: (-(c.score or 0.0), c.manifest.get("loss", 0.0), c.step))[:k]

    def _found(self) -> Iterator[Checkpoint]:
        for path in self.folder.glob("step-*/manifest.json"):
            try:
                manifest = json.loads(path.read_bytes())
                yield Checkpoint(path.parent, int(manifest["step"]), manifest)
            except (ValueError, KeyError, TypeError, OSError, RecursionError):
                continue

    def _prune(self) -> None:
        """Delete what is neither among the newest nor among the best."""
        newest = [c.step for c in self.all()][-self.keep :]
        kept = {*newest, *(c.step for c in self.last(self.keep)), *(c.step for c in self.best(self.keep))}
        for checkpoint in self.all():
            if checkpoint.step not in kept:
                shutil.rmtree(checkpoint.path, ignore_errors=True)


def read_newest(checkpoints: Checkpoints) -> tuple[Checkpoint, dict[str, Tensor], list[str]] | None:
    """The newest whole checkpoint, its tensors, and what was wrong with newer ones; None before the first."""
    problems: list[str] = []
    for checkpoint in checkpoints.newest():
        try:
            return checkpoint, checkpoint.tensors(), problems
        except (DamagedCheckpoint, SafetensorError, OSError, KeyError) as error:
            problems.append(f"{checkpoint.path.name} is damaged and not used ({error})")
    if problems:
        raise UserError(f"{checkpoints.folder}: no checkpoint can be read: {'; '.join(problems)}")
    return None
