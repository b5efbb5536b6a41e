"""Kill random ranks of training runs under torchrun, which restarts them, and compare the results.

    python bench/faults/ranks.py --n 40
    python bench/faults/ranks.py --n 40 --shard          # weights divided among the ranks (FSDP2)

Each run has two ranks and is disturbed four times: a random rank is killed with SIGKILL at a random time, from the
start of its processes on. torchrun starts both again, and the run must end by itself with the same files as a run that
was never disturbed, and with the loss of every update exactly once. Prints the time from a kill until all processes of
that attempt have ended, and until training goes on.
"""

import os
import signal
import subprocess
import sys
import time
from argparse import ArgumentParser
from pathlib import Path
from random import Random
from typing import Any

from experiment import Training, bundle_files, different_files, left_over, work_folder, write_data

from regard.train.log import read_metrics

KILLS = 4
"""Kills per run"""
RANKS = 2
LONGEST = 12.0  # seconds after the start of the processes until a kill


def command(training: Training, out: Path) -> list[str]:
    torchrun = ["--standalone", f"--nproc-per-node={RANKS}", "--max-restarts=100", "--monitor-interval=0.1"]
    return [
        sys.executable,
        "-m",
        "torch.distributed.run",
        *torchrun,
        "-m",
        "regard",
        *map(str, training.arguments(out)),
    ]


def start(training: Training, folder: Path) -> "subprocess.Popen[bytes]":
    folder.mkdir()
    environment = {
        **os.environ,
        "REGARD_CACHE": str(folder / "cache"),
        "OMP_NUM_THREADS": "1",
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }
    return subprocess.Popen(
        command(training, folder / "out"),
        env=environment,
        stderr=(folder / "log").open("wb"),
        stdout=subprocess.DEVNULL,
    )


def children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def wait_for(condition: Any, process: "subprocess.Popen[bytes]", seconds: float) -> float | None:
    """Wait until the condition holds; return the time that it took, or None if the process ends or takes longer."""
    begin = time.monotonic()
    while time.monotonic() - begin < seconds and process.poll() is None:
        if condition():
            return time.monotonic() - begin
        time.sleep(0.02)
    return None


def disturb(process: "subprocess.Popen[bytes]", out: Path, random: Random) -> tuple[float, float | None] | None:
    """Kill a random rank at a random time; return the seconds until the others had ended and until training went on."""
    if wait_for(lambda: len(children(process.pid)) == RANKS, process, 60) is None:
        return None
    ranks = children(process.pid)
    wait_for(lambda: False, process, random.uniform(0.0, LONGEST))
    try:
        os.kill(random.choice(ranks), signal.SIGKILL)
    except ProcessLookupError:  # the run has ended
        return None
    ended = wait_for(lambda: not set(ranks) & set(children(process.pid)), process, 120)
    if ended is None:
        return None
    metrics = out / "metrics.jsonl"
    before = metrics.stat().st_mtime_ns if metrics.exists() else 0
    going_on = wait_for(lambda: metrics.exists() and metrics.stat().st_mtime_ns != before, process, 120)
    return ended, None if going_on is None else ended + going_on


def problems(reference: Path, folder: Path) -> list[str]:
    found = different_files(bundle_files(reference / "out"), bundle_files(folder / "out"))
    losses, expected = ([(row["step"], row["loss"]) for row in rows(path)] for path in (folder, reference))
    if losses != expected:
        found.append(f"metrics.jsonl has {len(losses)} losses, of which some differ from those of the first run")
    return found + left_over(folder / "out")


def rows(folder: Path) -> list[dict[str, Any]]:
    return [row for row in read_metrics(folder / "out" / "metrics.jsonl") if "loss" in row]


def main() -> None:
    parser = ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--n", type=int, default=40, help="number of kills")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shard", action="store_true")
    args = parser.parse_args()
    random, kills, wrong, times = Random(args.seed), 0, 0, []
    with work_folder() as folder:
        settings = ("train.log_every=1", "train.steps=240", "valid.every=60", *(["train.shard=true"] * args.shard))
        training = Training("transformer", write_data(folder / "data"), settings=settings)
        reference = folder / "reference"
        if start(training, reference).wait():
            sys.exit((reference / "log").read_text(errors="replace"))
        for number in range(10 * args.n):
            if kills >= args.n:
                break
            case = folder / f"run-{number}"
            process, killed = start(training, case), 0
            while killed < KILLS and (took := disturb(process, case / "out", random)):
                killed, times = killed + 1, [*times, took]
            code = process.wait(timeout=300)
            found = [f"exit code {code}: …{(case / 'log').read_text(errors='replace')[-2000:]}"] if code else []
            found = found or problems(reference, case)
            kills, wrong = kills + killed, wrong + bool(found)
            print(f"run {number}: {killed} kills, {'; '.join(found) or 'identical'}", flush=True)
    ended, going_on = sorted(end for end, _ in times), sorted(after for _, after in times if after is not None)
    print(f"{kills} kills; runs that did not end as the first one: {wrong}")
    print(
        f"seconds from a kill until all ranks had ended: median {ended[len(ended) // 2]:.1f}, longest {ended[-1]:.1f}"
    )
    if going_on:
        print(f"seconds until training went on: median {going_on[len(going_on) // 2]:.1f}, longest {going_on[-1]:.1f}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
