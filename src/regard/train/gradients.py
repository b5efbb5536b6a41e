"""Gradients of the training loss: precision, fused kernels, compiled layers, CUDA graphs, deterministic kernels."""

import hashlib
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, Literal

import torch
from torch import Tensor
from torch.compiler import config as compiler_config

from regard.data.batch import Batch
from regard.data.batch_order import Batches
from regard.memory import release_memory
from regard.models import Model
from regard.nn.kernels.switch import triton_is_installed, use_fused_kernels
from regard.train.cuda_graphs import GraphRunner
from regard.train.determinism import deterministic_algorithms, examples_for_compiler, seed_dropout
from regard.train.gradient_sum import GradientSum
from regard.train.loss import LossConfig, batch_loss
from regard.train.ranks import Ranks
from regard.train.working_weights import WorkingWeights


class GradientConfig(LossConfig):
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """auto: bf16 autocast on a GPU, fp32 on a CPU. Some CPUs are faster with bf16 (docs/training.md)."""
    fused_kernels: bool = True
    """On a GPU with Triton, in bf16: fused kernels for the loss, residual connections and short attention."""
    compile: Literal["auto", True, False] = "auto"
    """Compile the layers with torch.compile, in place of fused kernels. auto: no."""
    cuda_graphs: Literal["auto", True, False] = "auto"
    """On a GPU: capture an update once per shape and replay it, which saves the time to launch kernels. auto: yes."""
    deterministic: bool = False
    """On a GPU: the same bits in every run, resumed or not, with slower kernels. On a CPU this is always so."""
    shard: bool = False
    """Under torchrun: divide weights, gradients and the optimizer's state among the ranks (FSDP2), for models that do
    not fit into the memory of one GPU; without fused kernels, compiled layers and CUDA graphs."""


class Gradients:
    """Computes the gradients of batches with respect to a model's parameters."""

    def __init__(self, model: Model, config: GradientConfig, ranks: Ranks | None = None) -> None:
        self.model = model
        self.config = config
        self.ranks = ranks or Ranks()
        self.device = next(model.parameters()).device
        on_gpu = self.device.type == "cuda"
        own_kernels = on_gpu and not config.shard
        self.deterministic = config.deterministic and on_gpu
        use_graphs = bool(config.cuda_graphs) and own_kernels
        self._half = uses_half(config, self.device)
        self._fused = config.fused_kernels and own_kernels and self._half and triton_is_installed()
        self._weights = WorkingWeights(model, torch.bfloat16 if self._half else torch.float32) if own_kernels else None
        self._graphs = GraphRunner(self._compute) if use_graphs else None
        self._compiled = config.compile is True
        if self._compiled:
            _compile_layers(model)
        self._fixed_code = self._compiled and self.deterministic
        self._is_compiled = False
        adds = self.ranks.size > 1 and not config.shard
        self._sum = GradientSum(list(model.parameters()), self.ranks) if adds else None

    def compute(
        self, batches: Sequence[Batch], scale: float, parts: int = 1, seed: tuple[int, ...] | None = None
    ) -> Tensor:
        """Set the gradients to those of the batches' loss times `scale`; return the negative log-likelihood.

        Each batch is computed in that many parts, which needs less memory. Each rank computes some of the parts;
        `exchange` adds what they have computed. Dropout is a function of `seed` and, if there are several parts, of
        the number of the part, so that it does not depend on the number of ranks.
        """
        factor = torch.full((), scale, device=self.device)
        total, sums = torch.zeros((), device=self.device), None
        numbered = list(enumerate(part for batch in batches for part in batch.split(parts)))
        mine = numbered[self.ranks.rank :: self.ranks.size]
        if self.config.shard and len(mine) < -(-len(numbered) // self.ranks.size):
            mine.append((len(numbered), numbered[0][1].without_targets()))  # all ranks must gather equally often
        self._drop_gradients()
        if seed and parts == 1:
            seed_dropout(self.device, *seed)
        with torch.compiler.set_stance("eager_on_recompile") if self._is_compiled else nullcontext():
            for number, part in mine:
                if seed and parts > 1:
                    seed_dropout(self.device, *seed, number)
                total = total + self._run(factor, part)
                if self._weights and len(mine) > 1:
                    sums = self._weights.add_gradients(sums)
        if self._weights and sums:
            self._weights.set_gradients(sums)
        if self._weights and not mine:
            self._weights.zero_gradients()
        return total

    def exchange(self, nll: Tensor) -> Tensor:
        """Add the gradients of all ranks, and return the sum of their negative log-likelihoods."""
        if self._sum:
            return self._sum(nll)
        self.ranks.add(nll)  # the gradients of sharded weights were added in the backward pass
        return nll

    def prepare(self, batches: Batches, parts: int) -> None:
        """If the result must not depend on it, compile for the same shapes however far a run has come.

        Batches that this code is not valid for run without it.
        """
        if self._is_compiled or not self._fixed_code:
            return
        examples = examples_for_compiler(batches, parts)
        # Torch keeps compiled code on disk, under names that do not depend on the shapes that it was compiled for.
        shapes = [tuple(tensor.shape) for example in examples for tensor in example.tensors()]
        tag = hashlib.sha256(str(shapes).encode()).hexdigest()
        with compiler_config.patch(cache_key_tag=tag):  # type: ignore[attr-defined]
            for example in examples:
                self._run(torch.ones((), device=self.device), example)
        self._drop_gradients()
        self._is_compiled = True

    def drop(self) -> None:
        """Drop all gradients and what was captured and compiled, and release their memory."""
        self._drop_gradients()
        if self._graphs:
            self._graphs.forget()
        if self._fixed_code:
            torch.compiler.reset()
            self._is_compiled = False
        release_memory()

    def determinism(self) -> AbstractContextManager[None]:
        """Let torch use deterministic kernels in the block, if they are on."""
        return deterministic_algorithms() if self.deterministic else nullcontext()

    def eager(self) -> AbstractContextManager[Any]:
        """Let layers run as they were before they were compiled, in the block."""
        return torch.compiler.set_stance("force_eager") if self._compiled else nullcontext()

    def _drop_gradients(self) -> None:
        if self._weights is None:
            self.model.zero_grad(set_to_none=True)
        else:
            self._weights.drop_gradients()

    def _run(self, scale: Tensor, part: Batch) -> Tensor:
        return (self._graphs or self._compute)(scale, *part.to(self.device).tensors())

    def _compute(self, scale: Tensor, *tensors: Tensor) -> Tensor:
        """Compute the gradients of one part; without working weights they are added to earlier ones."""
        with self._weights.in_use() if self._weights else nullcontext():
            with ExitStack() as stack:
                if self._half:
                    stack.enter_context(torch.autocast(self.device.type, dtype=torch.bfloat16))
                if self._fused:
                    stack.enter_context(use_fused_kernels(self.device))
                loss, nll = batch_loss(self.model, Batch(*tensors), self.config)
            (loss * scale).backward()
        return nll


def uses_half(config: GradientConfig, device: torch.device) -> bool:
    """Return whether the forward and backward pass are computed in bf16."""
    return config.precision == "bf16" or (config.precision == "auto" and device.type == "cuda")


def _compile_layers(model: Model) -> None:
    """Compile the layers of a model. Equal layers share one compilation, which is for all shapes."""
    # This analysis fails on such graphs in torch 2.11.
    options: dict[str, Any] = {"triton.coalesce_tiling_analysis": False}
    for layer in model.layers_to_compile():
        layer.compile(dynamic=True, options=options)
