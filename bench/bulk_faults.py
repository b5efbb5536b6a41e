"""Translate many lines on a Ray cluster of two nodes, kill one of them, and compare with a single process.

    python bench/bulk_faults.py MODEL_DIR lines.en [--lines 200000]

Both nodes are on this machine, with one core each. The lines are repeated until there are enough, with a number in each
so that they differ, and cut into files. One node is killed (SIGKILL of all its processes) when a third of the first
file is written. Prints whether the files are those that one process writes, and how many lines they have; the exit code
is 0 only if they are the same.
"""

import argparse
import os
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

N_FILES = 4


def start_cluster() -> tuple[Any, Any]:
    """Start a cluster of two nodes that only processes of this one can use; return it, and the second node."""
    private = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
    os.environ |= private  # Ray reads it when it is imported
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    doomed = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    return cluster, doomed


def write_files(text: Path, folder: Path, n_lines: int) -> list[Path]:
    """Write `n_lines` different lines as files of equal size."""
    lines = text.read_text().splitlines()
    folder.mkdir()
    paths = [folder / f"shard-{number}.txt" for number in range(N_FILES)]
    for number, path in enumerate(paths):
        numbers = range(number * n_lines // N_FILES, (number + 1) * n_lines // N_FILES)
        path.write_text("".join(f"{lines[i % len(lines)]} {i}\n" for i in numbers))
    return paths


def start(model: Path, sources: list[Path], out: Path, beam: int, *options: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "regard", "translate", str(model), "--input", *map(str, sources), "--output"]
    command += [str(out), "--beam", str(beam), "--device", "cpu", *options]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def finish(process: "subprocess.Popen[str]") -> None:
    _, error = process.communicate()
    if process.returncode:
        sys.exit(f"regard translate ended with {process.returncode}: {error[-2000:]}")


def n_parts(out: Path) -> int:
    """Return how many parts were written; those of complete files are deleted, and count in full."""
    complete = sum((out / f"shard-{number}.txt").exists() for number in range(N_FILES))
    return len(list((out / ".parts").rglob("part-*.gz"))) + complete * 1_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--lines", type=int, default=200_000)
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--part-lines", type=int, default=2048)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sources = write_files(args.text, folder / "sources", args.lines)
        cluster, doomed = start_cluster()
        parts, began = ("--part-lines", str(args.part_lines)), time.monotonic()
        job = start(args.model, sources, folder / "cluster", args.beam, *parts, "--ray", cluster.address)
        while n_parts(folder / "cluster") < args.lines / N_FILES / args.part_lines / 3 and job.poll() is None:
            time.sleep(0.1)
        killed, n_written = time.monotonic() - began, n_parts(folder / "cluster")
        cluster.remove_node(doomed, allow_graceful=False)
        finish(job)
        seconds = time.monotonic() - began
        cluster.shutdown()
        print(f"two nodes: {args.lines:,} lines in {seconds:.0f} s; one killed after {killed:.0f} s, {n_written} parts")
        began = time.monotonic()
        finish(start(args.model, sources, folder / "single", args.beam, *parts, "--workers", "1"))
        print(f"one process: {time.monotonic() - began:.0f} s")
        same = [
            (folder / "cluster" / s.name).read_bytes() == (folder / "single" / s.name).read_bytes() for s in sources
        ]
        n_lines = sum((folder / "cluster" / source.name).read_bytes().count(b"\n") for source in sources)
        print(f"identical files: {sum(same)} of {len(same)}; lines: {n_lines:,} of {args.lines:,}")
        sys.exit(not all(same) or n_lines != args.lines)


if __name__ == "__main__":
    main()
