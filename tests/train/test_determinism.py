"""`train.deterministic`: torch's settings, compiled code that does not depend on how far a run has come, and bits."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch._dynamo.utils import counters
from torch._inductor import config as inductor
from torch.backends import cudnn
from torch.utils import deterministic

from regard.data.batch_order import BatchConfig, PairBatches, StreamPosition
from regard.data.pair_store import pair_store_from
from regard.errors import UserError
from regard.models.weights import weights_of
from regard.train.checkpoint import Checkpoints
from regard.train.determinism import deterministic_algorithms, examples_for_compiler, prepare_cublas
from regard.train.gradients import Gradients
from regard.train.log import RunLog
from regard.train.progress import Progress
from regard.train.train_config import TrainConfig
from regard.train.trainer import Trainer
from tests.conftest import tiny_model

CUBLAS = "CUBLAS_WORKSPACE_CONFIG"


def settings() -> tuple[bool, ...]:
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        deterministic.fill_uninitialized_memory,
        cudnn.deterministic,
        cudnn.benchmark,
        inductor.deterministic,
    )


def pair_batches(tokens: int = 256, n: int = 400) -> PairBatches:
    generator = np.random.default_rng(0)
    rows = [[generator.integers(6, 40, generator.integers(2, 23)).tolist() for _ in range(n)] for _ in range(2)]
    return PairBatches(pair_store_from(*rows), np.arange(n), BatchConfig(tokens=tokens, workers=0), seed=1)


def make_trainer(folder: Path, device: str = "cpu", **options: object) -> Trainer:
    no_validation: Any = SimpleNamespace(fingerprint="")
    model = tiny_model(dropout=0.1, n_layers=1).float().to(device).train()
    config = TrainConfig.parse({"lr": 1e-2, "warmup": 1, **options})
    return Trainer(model, pair_batches(), no_validation, Checkpoints(folder, 2), RunLog(folder), config)


def run_updates(trainer: Trainer, progress: Progress, last: int) -> Progress:
    stream = trainer.batches.stream(StreamPosition(progress.epoch, progress.batch))
    with trainer.gradients.determinism():
        while progress.step < last:
            progress = trainer.update(stream, progress)
    return progress


def weights(trainer: Trainer) -> torch.Tensor:
    return torch.cat([tensor.flatten().cpu() for tensor in weights_of(trainer.model).values()])


def whole_and_resumed(folder: Path, device: str = "cpu", **options: object) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the weights after eight updates, without and with an interruption after the third."""
    whole = make_trainer(folder / "whole", device, deterministic=True, **options)
    run_updates(whole, Progress(), last=8)
    torch.compiler.reset()
    stopped = make_trainer(folder / "stopped", device, deterministic=True, **options)
    stopped._save(run_updates(stopped, Progress(), last=3))
    torch.compiler.reset()
    resumed = make_trainer(folder / "stopped", device, deterministic=True, **options)
    run_updates(resumed, resumed.restore(), last=8)
    return weights(whole), weights(resumed)


def test_the_users_settings_are_restored() -> None:
    before = settings()
    with deterministic_algorithms():
        assert settings() == (True, False, False, True, False, True)
    assert settings() == before
    torch.use_deterministic_algorithms(True, warn_only=True)
    inductor.deterministic = False
    try:
        changed = settings()
        with pytest.raises(KeyError), deterministic_algorithms():
            raise KeyError
        assert settings() == changed
    finally:
        torch.use_deterministic_algorithms(False)


def test_an_operation_without_deterministic_form_is_named_in_one_line() -> None:
    no_form = pytest.raises(UserError, match=r"train.deterministic: put_ has no deterministic form")
    with no_form as raised, deterministic_algorithms():
        torch.zeros(3).put_(torch.tensor([1]), torch.ones(1))
    assert "\n" not in str(raised.value)
    with pytest.raises(RuntimeError, match="shapes"), deterministic_algorithms():
        torch.ones(2, 3) @ torch.ones(2, 3)


def test_cublas_is_set_before_cuda_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CUBLAS, ":16:8")
    prepare_cublas()
    assert os.environ[CUBLAS] == ":16:8", "the user's choice is kept"
    monkeypatch.delenv(CUBLAS)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    with pytest.raises(UserError, match=f"set {CUBLAS}=:4096:8"):
        prepare_cublas()
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    prepare_cublas()
    assert os.environ[CUBLAS] == ":4096:8"


def test_on_a_cpu_the_option_changes_nothing(tmp_path: Path) -> None:
    trainers = [make_trainer(tmp_path, deterministic=on) for on in (False, True)]
    for trainer in trainers:
        with trainer.gradients.determinism():
            assert not torch.are_deterministic_algorithms_enabled()
        run_updates(trainer, Progress(), last=2)
    assert torch.equal(*map(weights, trainers))


def test_a_run_is_not_resumed_with_another_value(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, deterministic=True)
    trainer._save(run_updates(trainer, Progress(), last=1))
    with pytest.raises(UserError, match="began with deterministic True, now it is False"):
        make_trainer(tmp_path).restore()


def test_the_compiler_always_sees_the_same_shapes() -> None:
    batches = pair_batches()
    examples = examples_for_compiler(batches, parts=1)
    shapes = [tuple(example.src.shape + example.tgt_out.shape) for example in examples]
    assert len(set(shapes)) == len(shapes) > 1
    next(batches.stream(StreamPosition(3, 0)))
    again = examples_for_compiler(batches, parts=1)
    assert all(torch.equal(one.src, other.src) for one, other in zip(again, examples, strict=True))
    assert max(example.size for example in examples_for_compiler(batches, parts=3)) * 3 <= max(map(max, shapes)) + 3


@pytest.mark.filterwarnings("ignore")  # of the compiler
def test_compiled_code_does_not_depend_on_where_a_run_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = Gradients.__init__

    def fixed(gradients: Gradients, *arguments: Any) -> None:
        make(gradients, *arguments)
        gradients._fixed_code = True  # as on a GPU

    monkeypatch.setattr(Gradients, "__init__", fixed)
    torch.compiler.reset()
    trainer = make_trainer(tmp_path, compile=True)
    with torch.compiler.set_stance("default", force_backend="eager"):  # graphs are traced, but no code is generated
        trainer.gradients.prepare(trainer.batches, parts=1)
        assert all(parameter.grad is None for parameter in trainer.model.parameters())
        n_graphs = counters["stats"]["unique_graphs"]
        run_updates(trainer, Progress(batch=5), last=6)
    assert counters["stats"]["unique_graphs"] == n_graphs > 0, "nothing is compiled for later batches"


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_resumed_run_has_the_same_bits(tmp_path: Path, accumulate: int) -> None:
    assert torch.equal(*whole_and_resumed(tmp_path, accumulate=accumulate))


@pytest.mark.filterwarnings("ignore")  # of the compiler
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("cuda_graphs", [False, True], ids=["", "graphs"])
@pytest.mark.parametrize("compiled", [False, True], ids=["", "compiled"])
def test_a_resumed_run_has_the_same_bits_on_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: bool, cuda_graphs: bool
) -> None:
    monkeypatch.setenv(CUBLAS, ":4096:8")
    whole, resumed = whole_and_resumed(tmp_path, "cuda", compile=compiled, cuda_graphs=cuda_graphs)
    assert torch.equal(whole, resumed)
