"""Several processes under torchrun train the same model as one process."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from regard.errors import UserError
from regard.train.log import read_metrics
from regard.train.made_with import MadeWith
from regard.train.train_config import TrainConfig
from tests.cli.command import environment, failed_in_one_line, regard, toy_files, train_arguments

ROOT = Path(__file__).parents[2]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
SETTINGS = (
    *("train.steps=40", "train.schedule=inverse-sqrt", "train.parts=2", "train.log_every=1", "train.save_every=5"),
    *("valid.every=20", "valid.sentences=4", "model.dropout=0.1"),
)


def torchrun_environment() -> dict[str, str]:
    return {**environment(), "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


def losses(out: Path) -> dict[int, float]:
    rows = [row for row in read_metrics(out / "metrics.jsonl") if "loss" in row]
    assert len({row["step"] for row in rows}) == len(rows), "no update is recorded twice"
    return {row["step"]: row["loss"] for row in rows}


def kill_rank(torchrun: "subprocess.Popen[str]", out: Path) -> None:
    """Kill a rank with SIGKILL when the run has saved a checkpoint."""
    until = time.monotonic() + 60
    while not any((out / "checkpoints").glob("step-*")) and time.monotonic() < until:
        time.sleep(0.01)
    children = Path(f"/proc/{torchrun.pid}/task/{torchrun.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)


def test_two_ranks_in_one_process_group() -> None:
    command = [*TORCHRUN, "-m", "tests.train.rank_checks", "."]
    done = subprocess.run(command, cwd=ROOT, env=torchrun_environment(), capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "ok sharded_updates_equal_whole_ones" in done.stdout


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the ranks in /proc")
def test_a_killed_rank_is_restarted_and_the_result_is_that_of_one_process(tmp_path: Path) -> None:
    files = toy_files(tmp_path)
    alone, together = tmp_path / "alone", tmp_path / "together"
    trained = regard(*train_arguments(files, alone, *SETTINGS))
    assert trained.returncode == 0, trained.stderr
    command = [*TORCHRUN, "--max-restarts=3", "--monitor-interval=0.1", "-m", "regard"]
    command += map(str, train_arguments(files, together, *SETTINGS))
    with subprocess.Popen(
        command, env=torchrun_environment(), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as torchrun:
        kill_rank(torchrun, together)
        stdout, stderr = torchrun.communicate(timeout=200)
    assert torchrun.returncode == 0, stderr[-3000:]
    assert "resumed from step-" in stderr
    assert stdout.count("try it:") == 1, "only the first rank prints"
    assert losses(together) == pytest.approx(losses(alone), abs=1e-5)
    weights, expected = (load_file(out / "model.safetensors") for out in (together, alone))
    for name, tensor in expected.items():
        torch.testing.assert_close(weights[name], tensor, rtol=0, atol=1e-3)

    longer = [setting.replace("train.steps=40", "train.steps=44") for setting in SETTINGS]
    resumed = regard(*train_arguments(files, together, *longer), "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert "ranks was 2, is 1" in resumed.stderr
    assert list(losses(together)) == list(range(1, 45))


def test_shard_needs_torchrun_and_weights_that_can_be_divided(tmp_path: Path) -> None:
    files = toy_files(tmp_path, n=60)
    failed = regard(*train_arguments(files, tmp_path / "out", "train.shard=true"))
    assert "torchrun --nproc-per-node" in failed_in_one_line(failed)
    with pytest.raises(UserError, match="shard cannot be used with optimizer=muon"):
        TrainConfig.parse({"shard": True, "optimizer": "muon"})


def made_with(ranks: int = 1, threads: int = 1, data: str = "a") -> MadeWith:
    return MadeWith("2.13.0", "x86_64", threads, ranks, False, data)


def test_a_resumed_run_may_have_other_ranks_but_not_other_data_or_threads() -> None:
    before = {"torch": "2.13.0", "device": "x86_64", "threads": 1, "deterministic": False, "data": "a"}
    assert list(made_with().changes(before, False)) == []
    lines = list(made_with(ranks=2, threads=4).changes(before, False))
    assert [line.partition(":")[0] for line in lines] == ["threads was 1, is 4", "ranks was 1, is 2"]
    with pytest.raises(UserError, match="threads 1, now it is 4"):
        list(made_with(threads=4).changes(before, False))
    with pytest.raises(UserError, match="data differ"):
        list(made_with(ranks=2, data="b").changes(before, True))
