"""Lines per second of a bulk translation with different numbers of workers, against `regard translate < FILE`.

    python bench/bulk_speed.py MODEL_DIR lines.en [--lines 20000] [--workers 1 2] [--rounds 3]

Every command is a process of its own, and its time includes its start, loading the model and writing. Commands take
turns, so that other load on the machine falls on all of them; the table has the best time of each.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path


def seconds(command: list[str], stdin: Path | None = None) -> float:
    """Run a command with a file as standard input, and return how long it took."""
    began = time.monotonic()
    with (stdin or Path("/dev/null")).open() as file:
        done = subprocess.run(command, stdin=file, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr[-2000:]}")
    return time.monotonic() - began


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
    best = dict[str, float]()
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
    print(f"| {args.lines:,} lines | lines/s | |\n|---|---|---|")
    for what, time_ in best.items():
        print(f"| {what} | {args.lines / time_:,.0f} | {best['regard translate'] / time_:.2f} × |")


if __name__ == "__main__":
    main()
