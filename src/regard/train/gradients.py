"""Gradients of the training loss, with autocast, compiled layers, CUDA graphs and deterministic kernels."""

import hashlib
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch
from torch import Tensor
from torch.compiler import config as compiler_config

from regard.data.batch import Batch
from regard.data.batch_order import Batches
from regard.memory import release_memory
from regard.models import Model
from regard.train.cuda_graphs import GraphRunner
from regard.train.determinism import deterministic_algorithms, examples_for_compiler
from regard.train.loss import LossConfig, batch_loss


class GradientConfig(LossConfig):
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """auto: bf16 autocast on a GPU, fp32 on a CPU."""
    compile: Literal["auto", True, False] = "auto"
    """Compile the layers with torch.compile. auto: on a GPU; the first updates are slow."""
    cuda_graphs: Literal["auto", True, False] = "auto"
    """On a GPU: capture an update once per shape and replay it, which saves the time to launch kernels. auto: yes."""
    deterministic: bool = False
    """On a GPU: the same bits in every run, resumed or not, with slower kernels. On a CPU this is always so."""


class Gradients:
    """Adds the gradients of batches to those of a model's parameters."""

    def __init__(self, model: Model, examples: Batches, config: GradientConfig) -> None:
        self.model = model
        self.examples = examples
        self.config = config
        self.device = next(model.parameters()).device
        on_gpu = self.device.type == "cuda"
        self.deterministic = config.deterministic and on_gpu
        compiled = on_gpu if config.compile == "auto" else config.compile
        if compiled:
            _compile_layers(model)
        self._graphs = GraphRunner(self._add_one) if config.cuda_graphs and on_gpu else None
        self._fixed_code = compiled and self.deterministic
        self._is_compiled = False

    def add(self, batches: Sequence[Batch], scale: float, parts: int = 1) -> Tensor:
        """Add the gradient of the batches' loss times `scale`; return their negative log-likelihood.

        Each batch is computed in that many parts, which needs less memory.
        """
        total, factor = torch.zeros((), device=self.device), torch.full((), scale, device=self.device)
        add_one = self._graphs or self._add_one
        with torch.compiler.set_stance("eager_on_recompile") if self._is_compiled else nullcontext():
            for batch in batches:
                for part in batch.split(parts):
                    total = total + add_one(factor, *part.to(self.device).tensors())
        return total

    def prepare(self, parts: int) -> None:
        """If the result must not depend on it, compile for the same shapes however far a run has come.

        Batches that this code is not valid for run without it.
        """
        if self._is_compiled or not self._fixed_code:
            return
        examples = examples_for_compiler(self.examples, parts)
        # Torch keeps compiled code on disk, under names that do not depend on the shapes that it was compiled for.
        shapes = [tuple(tensor.shape) for example in examples for tensor in example.tensors()]
        tag = hashlib.sha256(str(shapes).encode()).hexdigest()
        with compiler_config.patch(cache_key_tag=tag):  # type: ignore[attr-defined]
            for example in examples:
                (self._graphs or self._add_one)(torch.ones((), device=self.device), *example.to(self.device).tensors())
        self.model.zero_grad(set_to_none=True)
        self._is_compiled = True

    def drop(self) -> None:
        """Drop all gradients and what was captured and compiled, and release their memory."""
        self.model.zero_grad(set_to_none=True)
        if self._graphs:
            self._graphs.forget()
        if self._fixed_code:
            torch.compiler.reset()
            self._is_compiled = False
        release_memory()

    def determinism(self) -> AbstractContextManager[None]:
        """Let torch use deterministic kernels in the block, if they are on."""
        return deterministic_algorithms() if self.deterministic else nullcontext()

    def _add_one(self, scale: Tensor, *tensors: Tensor) -> Tensor:
        with self._autocast():
            loss, nll = batch_loss(self.model, Batch(*tensors), self.config)
        (loss * scale).backward()
        return nll

    def _autocast(self) -> AbstractContextManager[Any]:
        precision = self.config.precision
        if precision == "auto":
            precision = "bf16" if self.device.type == "cuda" else "fp32"
        if precision == "fp32":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)


def _compile_layers(model: Model) -> None:
    """Compile the layers of a model. Equal layers share one compilation, which is for all shapes."""
    # This analysis fails on such graphs in torch 2.11.
    options: dict[str, Any] = {"triton.coalesce_tiling_analysis": False}
    for layer in model.layers_to_compile():
        layer.compile(dynamic=True, options=options)
