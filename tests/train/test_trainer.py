"""The update of the weights does not depend on how it is computed."""

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from regard import models
from regard.data.batch_order import BatchConfig, PairBatches, StreamPosition
from regard.data.pair_store import pair_store_from
from regard.models.adapters import LoraConfig, add_adapters
from regard.models.freeze import freeze
from regard.models.weights import weights_of
from regard.train.checkpoint import Checkpoints
from regard.train.log import RunLog
from regard.train.progress import Progress
from regard.train.ranks import Ranks
from regard.train.train_config import TrainConfig
from regard.train.trainer import Trainer
from tests.conftest import tiny_model


def trained(
    folder: Path,
    steps: int = 3,
    tokens: int = 256,
    dropout: float = 0.0,
    device: str = "cpu",
    prepare: Callable[[models.Model], None] = lambda model: None,
    ranks: Ranks | None = None,
    **options: object,
) -> dict[str, torch.Tensor]:
    """Return the weights of a small model after some updates."""
    generator = np.random.default_rng(0)
    rows = [[generator.integers(6, 40, generator.integers(2, 8)).tolist() for _ in range(192)] for _ in range(2)]
    batches = PairBatches(pair_store_from(*rows), np.arange(192), BatchConfig(tokens=tokens, workers=0), seed=1)
    model = tiny_model(dropout=dropout, n_layers=1).to(device)
    model = model.float() if device == "cuda" else model  # a GPU computes with copies in float32 or bf16
    prepare(model)
    # Biases of keys have no gradient but rounding errors, which Adam would enlarge without this ε.
    config = TrainConfig.parse({"lr": 1e-2, "warmup": 1, "eps": 1e-3, **options})
    no_validation: Any = SimpleNamespace(fingerprint="")
    trainer = Trainer(model, batches, no_validation, Checkpoints(folder, 2), RunLog(folder), config, ranks)
    trainer.trained.train()
    stream, progress = batches.stream(StreamPosition(0, 0)), trainer.with_parts(Progress())
    for _ in range(steps):
        progress = trainer.update(stream, progress)
    trainer.gather()
    return {name: tensor.clone() for name, tensor in weights_of(model).items()}


def assert_close(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor], tolerance: float) -> None:
    for name, tensor in left.items():
        torch.testing.assert_close(tensor.cpu().double(), right[name].cpu().double(), rtol=0, atol=tolerance)


@pytest.mark.filterwarnings("ignore")  # of the compiler
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on a CPU")
def test_compiled_updates_equal_eager_ones(tmp_path: Path) -> None:
    torch.compiler.reset()
    assert_close(trained(tmp_path, r_drop=1.0, compile=True), trained(tmp_path, r_drop=1.0), 1e-6)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_cuda_graphs_equal_eager_updates(tmp_path: Path) -> None:
    on_gpu = {"device": "cuda", "precision": "fp32", "steps": 6}
    assert_close(trained(tmp_path, **on_gpu, cuda_graphs=True), trained(tmp_path, **on_gpu), 1e-6)  # type: ignore[arg-type]
    one, other = (trained(tmp_path, **on_gpu, dropout=0.3, cuda_graphs=True, seed=s) for s in (1, 2))  # type: ignore[arg-type]
    assert not all(torch.equal(tensor, other[name]) for name, tensor in one.items()), (
        "replayed graphs draw new dropout masks"
    )


def adapt(model: models.Model) -> None:
    """Train adapters, and nothing of the decoder."""
    freeze(model, ("decoder",))
    add_adapters(model, LoraConfig(rank=2))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_adapters_and_frozen_parts_on_a_gpu(tmp_path: Path, optimizer: str) -> None:
    options: dict[str, Any] = {"steps": 6, "prepare": adapt, "optimizer": optimizer, "weight_decay": 0.1}
    expected = trained(tmp_path, **options)
    assert_close(trained(tmp_path, device="cuda", precision="fp32", **options), expected, 1e-3)
    fused = [trained(tmp_path, device="cuda", fused_kernels=fused, **options) for fused in (True, False)]
    assert_close(fused[0], fused[1], 0.02)
    start = trained(tmp_path, **{**options, "steps": 0})
    changed = {name for name, tensor in fused[0].items() if not torch.equal(tensor.cpu(), start[name].float())}
    assert changed == {name for name in start if ".adapter." in name and name.startswith("encoder.")}


def test_frozen_parts_have_no_gradient_and_no_state(tmp_path: Path) -> None:
    start, after = (trained(tmp_path, steps=steps, prepare=adapt, weight_decay=0.1) for steps in (0, 3))
    changed = {name for name, tensor in after.items() if not torch.equal(tensor, start[name])}
    assert changed == {name for name in start if ".adapter." in name}
    assert changed and all(name.startswith("encoder.") for name in changed)


def test_r_drop_without_dropout_changes_nothing(tmp_path: Path) -> None:
    assert_close(trained(tmp_path, r_drop=5.0), trained(tmp_path), 1e-6)


def test_accumulated_batches_equal_one_larger_batch(tmp_path: Path) -> None:
    """192 pairs in one update have the same gradient in batches of any size."""
    whole = trained(tmp_path, steps=1, tokens=8 * 192)
    parts = 192 * 8 // 256
    assert_close(trained(tmp_path, steps=1, tokens=256, accumulate=parts), whole, 1e-7)


def test_randomness_depends_only_on_the_seed(tmp_path: Path) -> None:
    first, again = trained(tmp_path, dropout=0.3), trained(tmp_path, dropout=0.3)
    assert all(torch.equal(tensor, again[name]) for name, tensor in first.items())
    other = trained(tmp_path, dropout=0.3, seed=2)
    assert not all(torch.equal(tensor, other[name]) for name, tensor in first.items())
