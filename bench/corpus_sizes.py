"""Quality on parts of a corpus: BLEU of recipes against the number of training pairs.

    python bench/corpus_sizes.py train.en train.de --valid val.en val.de --test test.en test.de \
        --sizes 1000,3000,10000,29000 --recipes auto,small --seeds 1,2,3 --tokenize none --out runs/sizes

A recipe is a name with settings, such as auto+model.dropout=0.3+train.r_drop=0; `--recipes @FILE` reads one per line.
Several trainings run at once (`--at-once`), which a GPU serves best with MPS (`nvidia-cuda-mps-control -d`). Each
result is stored when it is known; the same command goes on where it was stopped. At the end a table has, for each size
and recipe, the validation BLEU (of the kept weights) and the test BLEU (beam 5), mean over the seeds; `sizes.png`
shows the test BLEU. Settings are to be chosen by the validation column.
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from regard.compare.plan import split_label
from regard.data.data_file import read_lines


class Job(NamedTuple):
    size: int
    recipe: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.size} {self.recipe} {self.seed}"


@dataclass(frozen=True)
class Bench:
    options: argparse.Namespace
    started: float

    def folder(self, job: Job) -> Path:
        """Return the model directory of a job."""
        models: Path = self.options.out / "models"
        return models / job.name.replace("/", "_").replace(" ", "_")

    def run(self, job: Job) -> dict[str, Any] | None:
        """Train and evaluate; return the scores, or None if it failed or there is no time left."""
        folder = self.folder(job)
        name, *settings = split_label(job.recipe)
        settings = [f"train.seed={job.seed}", "valid.samples=0", *settings]
        command = ["train", *part_of(self.options.files, job.size, self.options.out), "--recipe", name]
        command += ["--valid", *self.options.valid, "--out", folder, "--resume"]
        start = time.monotonic()
        trained = self.regard([*command, *(part for s in settings for part in ("--set", s))])
        if trained is None:
            return None
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        bleu = max(row["bleu"] for row in rows if "bleu" in row)
        result = {"valid": bleu, "seconds": round(time.monotonic() - start)}
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)
        if self.options.test:
            scores = ["evaluate", folder, *self.options.test, "--tokenize", self.options.tokenize, "--beam", "5"]
            printed = self.regard([*scores, "--json"])
            result["test"] = json.loads(printed)["scores"]["BLEU"]["score"] if printed else None
        return result

    def regard(self, arguments: Sequence[object]) -> str | None:
        """Run a command of regard; return what it prints."""
        left = self.options.seconds - (time.monotonic() - self.started)
        if left < 1:
            return None
        command = [sys.executable, "-m", "regard", *map(str, arguments)]
        with suppress(subprocess.TimeoutExpired):
            done = subprocess.run(command, capture_output=True, text=True, timeout=left)
            if done.returncode == 0:
                return done.stdout
            print(done.stderr[-500:], file=sys.stderr)
        return None


def part_of(files: Sequence[Path], size: int, out: Path) -> list[Path]:
    """Write `size` pairs of the files, chosen at random but always the same; a larger part contains a smaller one."""
    lines = [list(read_lines(path)) for path in files]
    order = list(range(len(lines[0])))
    random.Random(14).shuffle(order)
    chosen, folder = sorted(order[:size]), out / "parts"
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{size}.{path.name.removesuffix('.gz').rpartition('.')[2]}" for path in files]
    for path, side in zip(paths, lines, strict=True):
        content = b"".join(side[i] + b"\n" for i in chosen)
        if not path.exists() or path.read_bytes() != content:
            path.write_bytes(content)
    return paths


def measure(jobs: list[Job], bench: Bench) -> dict[str, dict[str, Any]]:
    """Run the jobs that have no result yet; return all results by name."""
    path = bench.options.out / "results.json"
    results: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}
    waiting = [job for job in jobs if job.name not in results]
    with ThreadPoolExecutor(bench.options.at_once) as pool:
        running = {pool.submit(bench.run, job): job for job in waiting}
        for done in as_completed(running):
            job, result = running[done], done.result()
            if result is not None:
                results[job.name] = result
                path.write_text(json.dumps(results, indent=1))
            print(f"{time.monotonic() - bench.started:5.0f} s  {job.name}: {result}", flush=True)
    return results


def table(jobs: list[Job], results: dict[str, dict[str, Any]]) -> Iterator[tuple[int, str, float, float, int]]:
    """Yield size, recipe, mean validation and test BLEU, and the number of seeds."""
    for size, recipe in dict.fromkeys((job.size, job.recipe) for job in jobs):
        rows = [results[j.name] for j in jobs if (j.size, j.recipe) == (size, recipe) and j.name in results]
        if rows:
            tests = [row["test"] for row in rows if row.get("test") is not None]
            yield size, recipe, mean(row["valid"] for row in rows), mean(tests) if tests else float("nan"), len(rows)


def plot(rows: list[tuple[int, str, float, float, int]], path: Path) -> None:
    """Draw the test BLEU of each recipe against the size."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for recipe in dict.fromkeys(row[1] for row in rows):
        points = [(size, test) for size, name, _, test, _ in rows if name == recipe]
        axes.plot(*zip(*points, strict=True), marker="o", label=recipe)
    axes.set(xscale="log", xlabel="training pairs", ylabel="BLEU (test)")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=150)


def recipes(text: str) -> list[str]:
    """Return the recipes of `a,b` or of the lines of `@FILE`."""
    if text.startswith("@"):
        return [line.strip() for line in Path(text[1:]).read_text().splitlines() if line.strip() and line[0] != "#"]
    return text.split(",")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs=2, type=Path)
    parser.add_argument("--valid", nargs=2, type=Path, required=True)
    parser.add_argument("--test", nargs=2, type=Path)
    parser.add_argument("--sizes", default="1000,3000,10000")
    parser.add_argument("--recipes", default="auto,small")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--tokenize", default="13a")
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e6, help="start nothing after this time, and stop what runs")
    parser.add_argument("--out", type=Path, default=Path("runs/sizes"))
    options = parser.parse_args()
    sizes, seeds = (list(map(int, text.split(","))) for text in (options.sizes, options.seeds))
    jobs = [Job(size, recipe, seed) for size in sizes for recipe in recipes(options.recipes) for seed in seeds]
    options.out.mkdir(parents=True, exist_ok=True)
    rows = list(table(jobs, measure(jobs, Bench(options, time.monotonic()))))
    print(f"{'pairs':>7}  {'valid':>6}  {'test':>6}  seeds  recipe")
    for size, recipe, valid, test, n in rows:
        print(f"{size:7,}  {valid:6.2f}  {test:6.2f}  {n:5}  {recipe}")
    if options.test:
        plot(rows, options.out / "sizes.png")


if __name__ == "__main__":
    main()
