"""A run that is killed and resumed ends with exactly the same weights as an uninterrupted one."""

import hashlib
import random
import signal
import time
from pathlib import Path

import pytest

from tests.cli.command import StartedCommand, failed_in_one_line, regard, toy_files, train_arguments

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

# Lets a process kill itself at its n-th fsync, usually in the middle of a save.
KILL_AT_FSYNC = """
import os, signal
left, real = {n}, os.fsync
def fsync(descriptor):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(descriptor)
os.fsync = fsync
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


def start(files: list[Path], out: Path, *settings: str, prelude: str = "") -> StartedCommand:
    return StartedCommand(*train_arguments(files, out, *SETTINGS, *settings), "--resume", prelude=prelude)


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
        killed = start(files, out, prelude=KILL_AT_FSYNC.format(n=kill_at)).wait()
        assert killed.returncode == -signal.SIGKILL
    for step in (40, 70):
        running = start(files, out)
        wait_for_step(out, step)
        time.sleep(generator.random() * 0.2)
        running.kill()
    done = start(files, out).wait()
    assert done.returncode == 0, done.stderr
    assert digest(out) == uninterrupted
    assert not [p for p in (out / "checkpoints").iterdir() if p.name.endswith(".tmp")]


@pytest.mark.parametrize(("number", "times"), [(signal.SIGINT, 2), (signal.SIGTERM, 3), (signal.SIGHUP, 1)])
def test_a_signal_saves_and_stops_even_if_repeated(
    files: list[Path], uninterrupted: str, number: signal.Signals, times: int
) -> None:
    out = files[0].parent / number.name
    running = start(files, out)
    wait_for_step(out, 25)
    for _ in range(times):
        running.send_signal(number)
        time.sleep(0.02)
    stopped = running.wait()
    assert stopped.returncode == 128 + number
    assert "saved at step" in stopped.stderr and "--resume" in stopped.stderr and "Traceback" not in stopped.stderr
    again = start(files, out).wait()
    assert again.returncode == 0, again.stderr
    assert digest(out) == uninterrupted


def test_a_run_with_unigram_sampling_can_be_resumed(files: list[Path]) -> None:
    sampling = ("tokenizer.kind=unigram", "tokenizer.dropout=0", "tokenizer.alpha=0.2", "train.steps=30")
    whole, killed = (files[0].parent / f"unigram-{name}" for name in ("whole", "killed"))
    done = regard(*train_arguments(files, whole, *SETTINGS, *sampling))
    assert done.returncode == 0, done.stderr
    running = start(files, killed, *sampling)
    wait_for_step(killed, 15)
    running.kill()
    assert "resumed from" in start(files, killed, *sampling).wait().stderr
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
