"""A batch that does not fit into memory is computed in parts, and the run goes on."""

import signal
import subprocess
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.data.batch import Batch
from regard.errors import UserError
from regard.train.checkpoint import Checkpoints
from regard.train.gradients import Gradients
from tests.cli.command import StartedCommand, failed_in_one_line, regard, toy_files, train_arguments
from tests.conftest import random_batch
from tests.train.test_resume import SETTINGS, digest
from tests.train.test_trainer import assert_close, trained

# Lets the n-th computation of a loss run out of memory if it is of too many rows, and kills the process at the m-th.
FULL_AT = """
import os, signal
import torch
from regard.train import gradients
calls, full, kill, real = 0, {full}, {kill}, gradients.batch_loss
def batch_loss(model, batch, config):
    global calls
    calls += 1
    if calls == kill:
        os.kill(os.getpid(), signal.SIGKILL)
    if calls >= full and batch.size > {most}:
        raise torch.OutOfMemoryError("simulated")
    return real(model, batch, config)
gradients.batch_loss = batch_loss
"""
NEVER = 10**9
SHORT = (*SETTINGS, "train.steps=40", "valid.every=20")


def limit_rows(monkeypatch: pytest.MonkeyPatch, most: int, from_call: int = 0) -> list[int]:
    """Let training run out of memory with more than `most` rows; return the rows of every attempt."""
    sizes: list[int] = []
    compute = Gradients._compute

    def limited(gradients: Gradients, scale: torch.Tensor, *tensors: torch.Tensor) -> torch.Tensor:
        sizes.append(len(tensors[0]))
        nll = compute(gradients, scale, *tensors)  # the gradients of a failed update must be dropped
        if len(sizes) >= from_call and sizes[-1] > most:
            raise torch.OutOfMemoryError
        return nll

    monkeypatch.setattr(Gradients, "_compute", limited)
    return sizes


@pytest.mark.parametrize("options", [{}, {"accumulate": 2}, {"r_drop": 1.0}, {"ema": 0.5}], ids=str)
def test_the_gradient_is_that_of_the_whole_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, float]
) -> None:
    whole = trained(tmp_path / "whole", **options)  # type: ignore[arg-type]
    sizes = limit_rows(monkeypatch, most=10, from_call=3)
    assert_close(trained(tmp_path / "parts", **options), whole, 1e-9)  # type: ignore[arg-type]
    assert max(sizes[4:]) <= 32 and sizes[-1] <= 10, "32 rows, then 16, then 8"


@pytest.mark.parametrize("allocation", [2, 7])
def test_memory_may_run_out_in_the_first_step_of_adam(
    allocation: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = trained(tmp_path / "whole")
    allocations, zeros_like = count(1), torch.zeros_like

    def limited(*args: Any, **options: Any) -> torch.Tensor:
        if next(allocations) == allocation:  # between the two moments of a parameter, or of the first one of another
            raise torch.OutOfMemoryError
        return zeros_like(*args, **options)

    monkeypatch.setattr(torch, "zeros_like", limited)
    assert_close(trained(tmp_path / "parts"), whole, 1e-9)
    assert next(allocations) > allocation


def test_the_batch_is_split_from_the_update_that_did_not_fit_and_a_checkpoint_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    limit_rows(monkeypatch, most=16, from_call=3)
    trained(tmp_path, steps=4)
    [checkpoint] = Checkpoints(tmp_path, 2).all()
    assert checkpoint.step == 2 and checkpoint.facts["progress"]["parts"] == 2
    [line] = [line for line in capsys.readouterr().err.splitlines() if "out of memory" in line]
    assert "step 3" in line and "2 parts" in line


def test_a_checkpoint_before_the_first_update_does_not_count_as_validated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_rows(monkeypatch, most=16)
    trained(tmp_path, steps=1)
    [checkpoint] = Checkpoints(tmp_path, 2).all()
    assert checkpoint.step == 0 and checkpoint.score is None


def test_an_example_that_does_not_fit_ends_the_run_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = limit_rows(monkeypatch, most=0, from_call=3)
    with pytest.raises(UserError, match=r"out of memory at step 3.*batch.max_tokens") as raised:
        trained(tmp_path)
    assert sizes[-1] == 1 and "\n" not in str(raised.value)
    assert [checkpoint.step for checkpoint in Checkpoints(tmp_path, 2).all()] == [2], "the state before that update"


@pytest.mark.parametrize(("rows", "n", "sizes"), [(8, 2, [4, 4]), (7, 3, [2, 2, 3]), (3, 8, [1, 1, 1]), (5, 1, [5])])
def test_a_batch_is_divided_into_parts_of_about_equal_size(rows: int, n: int, sizes: list[int]) -> None:
    batch = random_batch([(3, 4)] * rows)
    parts = batch.split(n)
    assert [part.size for part in parts] == sizes
    joined = Batch(*(torch.cat(side) for side in zip(*(part.tensors() for part in parts), strict=True)))
    assert all(torch.equal(a, b) for a, b in zip(joined.tensors(), batch.tensors(), strict=True))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("call", [1, 2, 3], ids=["first run", "capture", "after a capture"])
def test_captured_graphs_are_dropped_when_memory_runs_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    on_gpu = {"device": "cuda", "precision": "fp32", "steps": 6, "cuda_graphs": True}
    whole = trained(tmp_path / "whole", **on_gpu)  # type: ignore[arg-type]
    limit_rows(monkeypatch, most=10, from_call=call)
    assert_close(trained(tmp_path / "parts", **on_gpu), whole, 1e-6)  # type: ignore[arg-type]


def run_limited(
    arguments: list[object], full: int, kill: int = NEVER, most: int = 8
) -> subprocess.CompletedProcess[str]:
    """Run `regard` with the simulated memory of FULL_AT."""
    prelude = FULL_AT.format(full=full, kill=kill, most=most)
    return StartedCommand(*arguments, "--resume", prelude=prelude).wait()


def test_a_run_that_was_split_and_then_killed_ends_with_the_same_bits(tmp_path: Path) -> None:
    files = toy_files(tmp_path, n=300)
    arguments = [train_arguments(files, tmp_path / name, *SHORT) for name in ("whole", "killed")]
    whole, killed = ([*each, "--device", "cpu"] for each in arguments)
    done = run_limited(whole, full=30)
    assert done.returncode == 0, done.stderr
    assert "out of memory" in done.stderr and "4 parts" in done.stderr
    assert run_limited(killed, full=30, kill=120).returncode == -signal.SIGKILL
    resumed = regard(*killed, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert "out of memory" not in resumed.stderr, "the parts are read from the checkpoint"
    assert digest(tmp_path / "killed") == digest(tmp_path / "whole")


def test_a_run_in_which_nothing_fits_fails_in_one_line_and_can_be_resumed(tmp_path: Path) -> None:
    files = toy_files(tmp_path, n=300)
    arguments = [*train_arguments(files, tmp_path / "out", *SHORT), "--device", "cpu"]
    assert "even with one example" in failed_in_one_line(run_limited(arguments, full=30, most=0))
    resumed = regard(*arguments, "--resume")
    assert resumed.returncode == 0, "with more memory the run continues"
