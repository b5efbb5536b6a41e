"""The mean of several checkpoints' weights."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from regard.bundle import Bundle
from regard.errors import UserError
from regard.models.weights import load_weights
from regard.train.checkpoint import Checkpoint, Checkpoints

WEIGHTS = "model."
AVERAGED = "ema."


def checkpoint_weights(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """The weights to use: their moving average where the run kept one."""
    tensors = checkpoint.tensors()
    prefix = AVERAGED if any(name.startswith(AVERAGED) for name in tensors) else WEIGHTS
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}


def average(checkpoints: Sequence[Checkpoint]) -> dict[str, Tensor]:
    """Mean weights, summed in float64; of one checkpoint it is that checkpoint."""
    total: dict[str, Tensor] = {}
    dtypes: dict[str, torch.dtype] = {}
    for checkpoint in checkpoints:
        for name, tensor in checkpoint_weights(checkpoint).items():
            dtypes[name] = tensor.dtype
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    return {name: (tensor / len(checkpoints)).to(dtypes[name]) for name, tensor in total.items()}


def average_run(run: Path, which: Literal["last", "best"], k: int, out: Path) -> list[int]:
    """Write the mean of a run's checkpoints as a bundle → the steps that it is the mean of."""
    bundle = Bundle.load(run)
    checkpoints = Checkpoints(run / "checkpoints", keep=k)
    chosen = checkpoints.last(k) if which == "last" else checkpoints.best(k)
    if len(chosen) < k:
        kept = len(checkpoints.all())
        raise UserError(f"{run}: has {len(chosen)} validated checkpoints ({kept} in all), not {k}; ask for fewer")
    load_weights(bundle.model, average(chosen), str(run))
    steps = sorted(checkpoint.step for checkpoint in chosen)
    bundle.save(out, _card(run / "README.md", steps))
    return steps


def _card(path: Path, steps: Sequence[int]) -> str:
    """The run's model card without what was measured on other weights."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    kept = [line for line in lines if not line.startswith(("| validation |", "| updates |", "Signature of the BLEU"))]
    row = f"| weights | the mean of the checkpoints at steps {', '.join(map(str, steps))} |"
    places = [i for i, line in enumerate(kept) if line.startswith(("| weights |", "| training data |"))]
    kept = [line for line in kept if not line.startswith("| weights |")]
    kept.insert(places[0] + 1 if places else len(kept), row)
    return "\n".join(kept) + "\n"
