"""Lines per second of a bulk translation with different numbers of workers, against `regard translate < FILE`.

    python bench/bulk_speed.py MODEL_DIR lines.en [--lines 20000] [--workers 1 2] [--rounds 3]

Every command is a process of its own, and its time includes its start, loading the model and writing. Commands take
turns, so that other load on the machine falls on all of them; the table has the best time of each. The seconds of CPU
per 1,000 lines depend less on other load; those of the start are included.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path


def seconds(command: list[str], stdin: Path | None = None) -> tuple[float, float]:
    """Run a command with a file as standard input, and return how long it took, and its seconds of CPU."""
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with (stdin or Path("/dev/null")).open() as file:
        done = subprocess.run(command, stdin=file, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--lines", type=int, default=20_000)
    parser.add_argument("--part-lines", type=int, default=2048)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    best = dict[str, tuple[float, float]]()
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "text.txt"
        source.write_text("\n".join(islice(cycle(args.text.read_text().splitlines()), args.lines)) + "\n")
        plain = [sys.executable, "-m", "regard", "translate", str(args.model), "--beam", str(args.beam)]
        for number in range(args.rounds):
            times = {"regard translate": seconds(plain, stdin=source)}
            for n in args.workers:
                folder = ["--output", f"{name}/{number}-{n}", "--part-lines", str(args.part_lines), "--workers", str(n)]
                times[f"{n} workers"] = seconds([*plain, "--input", str(source), *folder])
            best |= {what: min(time_, best.get(what, time_)) for what, time_ in times.items()}
    print(f"| {args.lines:,} lines | lines/s | | CPU s per 1,000 lines |\n|---|---|---|---|")
    for what, (time_, cpu) in best.items():
        ratio = best["regard translate"][0] / time_
        print(f"| {what} | {args.lines / time_:,.0f} | {ratio:.2f} × | {1000 * cpu / args.lines:.2f} |")


if __name__ == "__main__":
    main()
