"""A run that is killed and resumed ends with exactly the same weights as an uninterrupted one."""

import hashlib
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.command import environment, failed_in_one_line, regard, toy_files, train_arguments

# All parts that have a state: BPE-dropout, dropout, EMA, accumulation, early-stopping counters, averaging.
SETTINGS = (
    *("tokenizer.kind=bpe", "tokenizer.vocab_size=280", "tokenizer.dropout=0.1", "model.d_model=16", "model.d_ff=32"),
    *(
        "model.n_layers=1",
        "model.dropout=0.1",
        "train.average=last",
        "batch.tokens=256",
        "train.steps=90",
        "train.ema=0.9",
        "train.accumulate=2",
    ),
    *("train.save_every=7", "train.log_every=5", "valid.every=30", "train.average_k=2", "valid.sentences=30"),
)

# The command line in a process that kills itself at its n-th fsync, usually in the middle of a save.
KILL_AT_FSYNC = """
import os, signal, sys
left, real = int(sys.argv.pop(1)), os.fsync
def fsync(descriptor):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(descriptor)
os.fsync = fsync
from regard.cli import main
main()
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return toy_files(tmp_path_factory.mktemp("resume"), n=600)


@pytest.fixture(scope="module")
def uninterrupted(files: list[Path]) -> str:
    out = files[0].parent / "whole"
    done = regard(*train_arguments(files, out, *SETTINGS))
    assert done.returncode == 0, done.stderr
    return digest(out)


def digest(out: Path) -> str:
    """Return a hash of the final weights and of all validations."""
    rows = (out / "metrics.jsonl").read_text().splitlines()
    steady = [row for row in rows if "tokens_per_second" not in row]
    return hashlib.sha256((out / "model.safetensors").read_bytes() + "\n".join(steady).encode()).hexdigest()


def start(files: list[Path], out: Path, *settings: str, kill_at_fsync: int | None = None) -> subprocess.Popen[str]:
    how = ["-m", "regard"] if kill_at_fsync is None else ["-c", KILL_AT_FSYNC, str(kill_at_fsync)]
    command = [sys.executable, *how, *train_arguments(files, out, *SETTINGS, *settings), "--resume"]
    return subprocess.Popen(
        list(map(str, command)), stderr=subprocess.PIPE, text=True, env=environment(), preexec_fn=_not_under_nohup
    )


def _not_under_nohup() -> None:
    """Let the tests run under nohup too, which ignores SIGHUP."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def wait_for_step(out: Path, step: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if (out / "metrics.jsonl").is_file() and f'"step": {step},' in (out / "metrics.jsonl").read_text():
            return
        time.sleep(0.01)
    pytest.fail(f"step {step} was not reached")


def test_a_run_killed_at_random_moments_and_while_saving_can_be_resumed(files: list[Path], uninterrupted: str) -> None:
    out = files[0].parent / "killed"
    generator = random.Random(5)
    for kill_at in (2, 9, 17, 30, 44):  # config, tokenizer, store, first and later checkpoints
        process = start(files, out, kill_at_fsync=kill_at)
        process.communicate(timeout=100)
        assert process.returncode == -signal.SIGKILL
    for step in (40, 70):
        process = start(files, out)
        wait_for_step(out, step)
        time.sleep(generator.random() * 0.2)
        process.kill()
        process.communicate()
    done = start(files, out)
    _, stderr = done.communicate(timeout=100)
    assert done.returncode == 0, stderr
    assert digest(out) == uninterrupted
    assert not [p for p in (out / "checkpoints").iterdir() if p.name.endswith(".tmp")]


@pytest.mark.parametrize(("number", "times"), [(signal.SIGINT, 2), (signal.SIGTERM, 3), (signal.SIGHUP, 1)])
def test_a_signal_saves_and_stops_even_if_repeated(
    files: list[Path], uninterrupted: str, number: signal.Signals, times: int
) -> None:
    out = files[0].parent / number.name
    process = start(files, out)
    wait_for_step(out, 25)
    for _ in range(times):
        process.send_signal(number)
        time.sleep(0.02)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "saved at step" in stderr and "--resume" in stderr and "Traceback" not in stderr
    again = start(files, out)
    _, stderr = again.communicate(timeout=100)
    assert again.returncode == 0, stderr
    assert digest(out) == uninterrupted


def test_a_run_with_unigram_sampling_can_be_resumed(files: list[Path]) -> None:
    sampling = ("tokenizer.kind=unigram", "tokenizer.dropout=0", "tokenizer.alpha=0.2", "train.steps=30")
    whole, killed = (files[0].parent / f"unigram-{name}" for name in ("whole", "killed"))
    done = regard(*train_arguments(files, whole, *SETTINGS, *sampling))
    assert done.returncode == 0, done.stderr
    process = start(files, killed, *sampling)
    wait_for_step(killed, 15)
    process.kill()
    process.communicate()
    _, stderr = start(files, killed, *sampling).communicate(timeout=100)
    assert "resumed from" in stderr
    assert digest(killed) == digest(whole)


def test_resuming_with_other_options_or_data_is_refused(files: list[Path], uninterrupted: str) -> None:
    out = files[0].parent / "whole"
    changed = regard(*train_arguments(files, out, *SETTINGS, "train.label_smoothing=0.2"), "--resume")
    assert "train.label_smoothing was 0.1" in failed_in_one_line(changed)
    other = toy_files(files[0].parent / "other", task="copy", n=600)
    assert "data differ" in failed_in_one_line(regard(*train_arguments(other, out, *SETTINGS), "--resume"))
    finished = regard(*train_arguments(files, out, *SETTINGS), "--resume")
    assert finished.returncode == 0 and digest(out) == uninterrupted


def test_a_diverging_run_stops_and_names_its_last_good_checkpoint(files: list[Path]) -> None:
    out = files[0].parent / "diverged"
    settings = ("train.steps=60", "train.lr=1e35", "train.warmup=40", "train.save_every=1", "train.log_every=5")
    stopped = regard(*train_arguments(files, out, *settings))
    message = failed_in_one_line(stopped)
    assert "not finite" in message and "last good checkpoint is" in message
    assert "step-" in message
