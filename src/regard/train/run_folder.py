"""The output folder of a run: whether a run may use it, and the recipe that is kept in it."""

import hashlib
from pathlib import Path
from typing import Any

from regard.config import flatten, read_yaml
from regard.errors import UserError
from regard.files import remove_leftovers, write_atomically
from regard.manifest import read_regular
from regard.train.ranks import is_restart, torchrun_id
from regard.train.recipe import Recipe

_CONFIG_HEADER = "# The resolved recipe of this run of regard."
_CONFIG = "config.yaml"
_TORCHRUN = ".torchrun"
"""File with the identity of the torchrun job that the run belongs to"""

_MAY_DIFFER = {
    *("train.steps", "train.seconds", "train.patience", "train.log_every", "train.tensorboard"),
    *("train.save_every", "train.save_minutes", "train.shard", "batch.workers"),
}
"""Options that may change when a run is resumed; `train.steps` not if the learning rate depends on it"""


def saved_recipe(out: Path) -> Recipe | None:
    """Return the recipe that a run has kept in its folder; None if there is none."""
    path = out / _CONFIG
    return Recipe.parse(read_yaml(path), where=str(path)) if path.exists() else None


def save_recipe(out: Path, recipe: Recipe) -> None:
    write_atomically(out / _CONFIG, f"{_CONFIG_HEADER}\n{recipe.to_yaml()}".encode())


def is_restarted(out: Path) -> bool:
    """Whether torchrun has started the processes of the run in this folder again."""
    job, path = torchrun_id(), out / _TORCHRUN
    return is_restart() or (job is not None and path.exists() and read_regular(path) == job.encode())


def prepare_folder(out: Path, recipe: Recipe, resume: bool) -> None:
    """Check that the run may use the output folder; for a resumed run, that its recipe is the same."""
    path = out / _CONFIG
    if not _may_write(out):
        raise UserError(f"{out}: holds files that are not from a run; choose a new or empty folder as --out")
    started = any((out / "checkpoints").glob("step-*")) or (out / "model.safetensors").is_file()
    if started and not resume:
        raise UserError(f"{out}: already holds a run; add --resume to continue it, or choose another --out")
    if (init := recipe.train.init) and not resume and not init.is_dir():
        raise UserError(f"--init {init}: no model found; give a directory that `regard train` or `regard import` wrote")
    if resume and path.exists():
        _check_same_options(read_yaml(path), recipe)
    checkpoints = out / "checkpoints"
    for folder in (out, out / "tokenizer", checkpoints, *checkpoints.glob("step-*")):
        remove_leftovers(folder, exclusive=True)
    if job := torchrun_id():
        write_atomically(out / _TORCHRUN, job.encode())


def _may_write(folder: Path) -> bool:
    """Return whether the folder is that of a run, or has no files that a run would overwrite."""
    config = folder / _CONFIG
    if config.exists():
        return read_regular(config).startswith(_CONFIG_HEADER.encode())
    return not any((folder / name).exists() for name in ("README.md", "config.json", "model.safetensors"))


def _check_same_options(saved: dict[str, Any], recipe: Recipe) -> None:
    """Raise a UserError if a resumed run has other options that influence its result."""
    before, now = flatten(saved), flatten(recipe.model_dump(mode="json"))
    follows_steps = recipe.train.schedule == "cosine"
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) == now.get(name):
            continue
        change = f"--resume: {name} was {before.get(name)} when the run began and is {now.get(name)} now"
        if name == "train.steps" and follows_steps:
            raise UserError(f"{change}, but train.schedule=cosine depends on it; give the same, or another --out")
        if name not in _MAY_DIFFER:
            raise UserError(f"{change}; give the same options, or choose another --out")


def identity(recipe: Recipe) -> str:
    """Return a hash of the options that influence the result, which checkpoints of the same run have in common."""
    options = flatten(recipe.model_dump(mode="json"))
    return hashlib.sha256(repr(sorted((k, v) for k, v in options.items() if k not in _MAY_DIFFER)).encode()).hexdigest()
