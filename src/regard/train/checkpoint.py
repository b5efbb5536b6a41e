"""Checkpoints: folders step-00001000/ with state.safetensors and manifest.json, written completely or not at all."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from regard.errors import UserError
from regard.evaluate.validation import validation_order
from regard.files import delete_folder, new_folder, remove_leftovers, write_atomically
from regard.lock import FolderLock
from regard.manifest import Checksum, DamagedFile, Manifest, read_regular

WEIGHTS = "model."
AVERAGED = "ema."
"""Prefixes of the trained weights and of their moving average in a checkpoint"""

_SCHEMA = 2
_STATE = "state.safetensors"
_NAME = re.compile(r"step-(\d{8,})")
_RESUMABLE = 2
"""So many of the newest are kept: one to resume from, and one more in case it is damaged"""


@dataclass(frozen=True)
class Checkpoint:
    """One saved state, whose manifest has been verified. Its tensors are read and verified on demand."""

    path: Path
    step: int
    manifest: Manifest

    @property
    def facts(self) -> Mapping[str, Any]:
        """What was saved with the tensors: progress, score, loss, and what the state was made with"""
        return self.manifest.facts

    @property
    def score(self) -> float | None:
        """The validation's rank (BLEU, accuracy or negative loss), or None if this step was not validated."""
        score = self.facts.get("score")
        return None if score is None else float(score)

    @property
    def order(self) -> tuple[float, float]:
        """Sort key of the validation: greater is better"""
        return validation_order(self.score or 0.0, self.facts.get("loss", 0.0))

    @property
    def sha256(self) -> str:
        """Checksum of the tensors"""
        state = self.manifest.files.get(_STATE)
        return state.sha256 if state else ""

    def tensors(self) -> dict[str, Tensor]:
        """Read the tensors; raise DamagedFile unless they are as they were saved, and finite."""
        path = self.path / _STATE
        content = read_regular(path)
        if Checksum.of(content) != self.manifest.files.get(_STATE):
            raise DamagedFile(f"{path}: changed or damaged since it was written (SHA-256 differs)")
        try:
            tensors = load(content)
        except SafetensorError as error:
            raise DamagedFile(f"{path}: not a complete safetensors file ({error})") from None
        check_finite(tensors, str(path))
        return tensors


class Checkpoints:
    """The checkpoints of a run: the newest two, the `keep` last validated and the `keep` best are kept."""

    def __init__(
        self,
        folder: Path,
        keep: int,
        lock: FolderLock | None = None,
        run: str | None = None,
        left_out: Collection[int] = (),
    ) -> None:
        self.folder = folder
        self.keep = max(2, keep)
        self.lock = lock
        self.run = run
        """Stored in every checkpoint; those of another run are not used"""
        self.left_out = left_out

    def without(self, steps: Collection[int]) -> "Checkpoints":
        """Return the same checkpoints without those of some steps."""
        return Checkpoints(self.folder, self.keep, self.lock, self.run, steps)

    def save(self, step: int, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Save a checkpoint. If there is one of this step with the same tensors, only its manifest is replaced."""
        if self.lock:
            self.lock.check()
        content = save({name: tensor.cpu().contiguous() for name, tensor in tensors.items()})
        manifest = Manifest({_STATE: Checksum.of(content)}, {"schema": _SCHEMA, "step": step, "run": self.run, **facts})
        path = self.folder / f"step-{step:08d}"
        if _has_tensors(path, manifest):
            manifest.write(path)
        else:
            self.folder.mkdir(parents=True, exist_ok=True)
            with new_folder(path, replace=True) as folder:
                write_atomically(folder / _STATE, content)
                manifest.write(folder)
        self._prune()

    def all(self) -> list[Checkpoint]:
        """Return the checkpoints with an undamaged manifest, oldest first. Their tensors are verified when read."""
        return self._read()[0]

    def newest(self) -> Iterator[Checkpoint]:
        """Return the checkpoints, newest first."""
        return reversed(self.all())

    def last(self, k: int) -> list[Checkpoint]:
        """Return the last k that were validated, oldest first."""
        return self._validated()[-k:]

    def best(self, k: int) -> list[Checkpoint]:
        """Return the k with the highest score, best first; of equal scores the lower loss is better, NaN is worst."""
        return sorted(self._validated(), key=lambda c: c.order, reverse=True)[:k]

    def damaged(self) -> list[str]:
        """Return a line about each checkpoint whose manifest is damaged."""
        return self._read()[1]

    def _validated(self) -> list[Checkpoint]:
        return [checkpoint for checkpoint in self.all() if checkpoint.score is not None]

    def _read(self) -> tuple[list[Checkpoint], list[str]]:
        """Return the checkpoints with an undamaged manifest, and a line about each of the others."""
        checkpoints, damaged = [], []
        for path in sorted(self.folder.glob("step-*")):
            name = _NAME.fullmatch(path.name)
            if name is None or int(name[1]) in self.left_out:
                continue
            try:
                checkpoints.append(_open(path, int(name[1]), self.run))
            except DamagedFile as error:
                damaged.append(str(error))
        return sorted(checkpoints, key=lambda checkpoint: checkpoint.step), damaged

    def _prune(self) -> None:
        remove_leftovers(self.folder)
        newest = [c.step for c in self.all()][-_RESUMABLE:]
        keep = {*newest, *(c.step for c in self.last(self.keep)), *(c.step for c in self.best(self.keep))}
        for checkpoint in self.all():
            if checkpoint.step not in keep:
                delete_folder(checkpoint.path)


def _open(path: Path, step: int, run: str | None) -> Checkpoint:
    """Read and verify the manifest of a checkpoint, which must be of this run if one is given."""
    manifest = Manifest.read(path)
    schema = manifest.facts.get("schema")
    if schema != _SCHEMA:
        raise DamagedFile(f"{path}: written by another version of regard (schema {schema}, this one reads {_SCHEMA})")
    if manifest.facts.get("step") != step:
        raise DamagedFile(f"{path}: the checkpoint of another step")
    if run is not None and manifest.facts.get("run") != run:
        raise DamagedFile(f"{path}: the checkpoint of another run, with other options")
    for name in ("score", "loss"):
        if not isinstance(manifest.facts.get(name, 0.0), float | int):
            raise DamagedFile(f"{path}: its {name} is not a number")
    for name in ("progress", "made_with"):
        if not isinstance(manifest.facts.get(name, {}), dict):
            raise DamagedFile(f"{path}: its facts '{name}' are not a mapping")
    return Checkpoint(path, step, manifest)


def _has_tensors(path: Path, manifest: Manifest) -> bool:
    """Return whether the folder holds exactly the tensors of this manifest."""
    try:
        manifest.check(path)
    except DamagedFile:
        return False
    return True


def check_finite(tensors: Mapping[str, Tensor], where: str) -> None:
    """Raise DamagedFile if a number is infinite or not a number."""
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise DamagedFile(f"{where}: tensor '{name}' has values that are not finite")


def read_newest(checkpoints: Checkpoints) -> tuple[Checkpoint, dict[str, Tensor], list[str]] | None:
    """Return the newest undamaged checkpoint, its tensors, and messages about damaged ones.

    None if there is no checkpoint at all.
    """
    problems = checkpoints.damaged()
    for checkpoint in checkpoints.newest():
        try:
            return checkpoint, checkpoint.tensors(), problems
        except DamagedFile as error:
            problems.append(str(error))
    if problems:
        raise UserError(f"{checkpoints.folder}: no checkpoint can be used: {'; '.join(problems)}")
    return None
