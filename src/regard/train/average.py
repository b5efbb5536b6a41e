"""The mean of the weights of several checkpoints."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from regard.bundle import Bundle
from regard.config import read_yaml
from regard.errors import UserError
from regard.lock import lock_folder
from regard.models import Model
from regard.models.adapters import merge_adapters
from regard.models.weights import frozen_weights, replace_weights, trained_weights
from regard.train.checkpoint import AVERAGED, WEIGHTS, Checkpoint, Checkpoints
from regard.train.parent import FOLDER as PARENT
from regard.train.parent import Parent, choose_trained
from regard.train.recipe import Recipe


def checkpoint_weights(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """Return the trained weights of a checkpoint: their moving average if the run has one."""
    tensors = checkpoint.tensors()
    prefix = AVERAGED if any(name.startswith(AVERAGED) for name in tensors) else WEIGHTS
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}


def average_checkpoints(checkpoints: Sequence[Checkpoint]) -> dict[str, Tensor]:
    """Return the mean weights, summed in float64; for a single checkpoint exactly its weights."""
    total: dict[str, Tensor] = {}
    dtypes: dict[str, torch.dtype] = {}
    for checkpoint in checkpoints:
        weights = checkpoint_weights(checkpoint)
        if total and {n: t.shape for n, t in weights.items()} != {n: t.shape for n, t in total.items()}:
            raise UserError(f"{checkpoint.path}: its tensors are not those of the other checkpoints")
        for name, tensor in weights.items():
            dtypes[name] = tensor.dtype
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    return {name: (tensor / len(checkpoints)).to(dtypes[name]) for name, tensor in total.items()}


def average_run(run: Path, which: Literal["last", "best"], k: int, out: Path) -> list[int]:
    """Write the mean of the last or best k checkpoints of a run as a bundle and return their steps."""
    with lock_folder(out):
        return _average_run(run, which, k, out)


def _average_run(run: Path, which: Literal["last", "best"], k: int, out: Path) -> list[int]:
    bundle = Bundle.load(run)
    checkpoints = Checkpoints(run / "checkpoints", keep=k)
    chosen = checkpoints.last(k) if which == "last" else checkpoints.best(k)
    if len(chosen) < k:
        total = len(checkpoints.all())
        raise UserError(f"{run}: has {len(chosen)} validated checkpoints ({total} in total), not {k}; choose fewer")
    if len({checkpoint.facts.get("run") for checkpoint in chosen}) > 1:
        raise UserError(f"{run}: the checkpoints are of different runs and cannot be averaged")
    _load_average(bundle.model, average_checkpoints(chosen), run)
    steps = sorted(checkpoint.step for checkpoint in chosen)
    bundle.save(out, _averaged_card(run / "README.md", steps))
    return steps


def _load_average(model: Model, weights: Mapping[str, Tensor], run: Path) -> None:
    """Give a model the mean of the trained weights of a run; the others are as they were when it began."""
    config = run / "config.yaml"
    parent = Parent.read(run / PARENT)
    if parent and config.exists():
        choose_trained(model, Recipe.parse(read_yaml(config), where=str(config)).train)
        replace_weights(frozen_weights(model), parent.frozen, str(run / PARENT))
    replace_weights(trained_weights(model), weights, str(run))
    merge_adapters(model)


def _averaged_card(path: Path, steps: Sequence[int]) -> str:
    """Return the run's model card without the results of other weights, and with a row about the average."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    lines = [line for line in lines if not line.startswith(("| validation |", "| updates |", "Signature of the BLEU"))]
    row = f"| weights | the mean of the checkpoints at steps {', '.join(map(str, steps))} |"
    rows = [i for i, line in enumerate(lines) if line.startswith(("| weights |", "| training data |"))]
    lines = [line for line in lines if not line.startswith("| weights |")]
    lines.insert(rows[0] + 1 if rows else len(lines), row)
    return "\n".join(lines) + "\n"
