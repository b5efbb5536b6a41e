"""Bit-identical training on a GPU: deterministic kernels, and compiled code that is the same in every process."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch.backends import cudnn
from torch.utils import deterministic

from regard.data.batch import Batch
from regard.data.batch_order import Batches
from regard.errors import UserError

_CUBLAS_VARIABLE = "CUBLAS_WORKSPACE_CONFIG"
_CUBLAS_SETTINGS = (":4096:8", ":16:8")  # with these two, cuBLAS always adds in the same order
_EXAMPLES = 64  # batches whose shapes are compiled before the first update


def prepare_cublas() -> None:
    """Set the workspace of cuBLAS, which reads it when CUDA starts."""
    if os.environ.get(_CUBLAS_VARIABLE) in _CUBLAS_SETTINGS:
        return
    if torch.cuda.is_initialized():
        raise UserError(
            f"train.deterministic: CUDA was already used in this process; set {_CUBLAS_VARIABLE}={_CUBLAS_SETTINGS[0]} "
            "in the environment before"
        )
    os.environ[_CUBLAS_VARIABLE] = _CUBLAS_SETTINGS[0]


def seed_dropout(device: torch.device, *numbers: int) -> None:
    """Seed the random numbers of a device with a function of `numbers`.

    torch.manual_seed would seed all kinds of devices; for those not in use it keeps a stack trace in memory each time.
    """
    seed = int(np.random.SeedSequence(numbers).generate_state(1)[0])
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index].manual_seed(seed)


@contextmanager
def deterministic_algorithms() -> Iterator[None]:
    """Let torch use deterministic kernels only; afterwards everything is set as before."""
    from torch._inductor import config as inductor  # takes seconds to import

    try:
        with ExitStack() as restore:
            _set(restore, cudnn, "deterministic", True)
            _set(restore, cudnn, "benchmark", False)
            _set(restore, deterministic, "fill_uninitialized_memory", False)  # it costs time, and all memory is written
            _set(restore, inductor, "deterministic", True)
            before = torch.are_deterministic_algorithms_enabled()
            warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
            restore.callback(torch.use_deterministic_algorithms, before, warn_only=warn_only)
            torch.use_deterministic_algorithms(True)
            yield
    except RuntimeError as error:
        if "does not have a deterministic implementation" not in str(error):
            raise
        raise UserError(
            f"train.deterministic: {str(error).split()[0]} has no deterministic form on a GPU; set it to false, or "
            "change the model"
        ) from None


def _set(restore: ExitStack, module: Any, name: str, value: bool) -> None:
    restore.callback(setattr, module, name, getattr(module, name))
    setattr(module, name, value)


def examples_for_compiler(batches: Batches, parts: int) -> list[Batch]:
    """Return a part of every shape that occurs in the first batches, in the same order however far a run has come.

    What torch.compile generates depends on the shapes that it sees first, down to the order of sums.
    """
    examples: dict[tuple[torch.Size, ...], Batch] = {}
    for i in range(min(_EXAMPLES, len(batches.window(0, 0)))):
        for part in batches.batch(0, i).split(parts):
            examples.setdefault(tuple(tensor.shape for tensor in part.tensors()), part)
    return list(examples.values())
