"""What a parent model is worth to a small corpus of another language pair: BLEU of new models, fine-tuning and LoRA.

    python bench/transfer.py --parent train.en train.de --parent-valid val.en val.de \
        --child train.en train.fr --valid val.en val.fr --test test.en test.fr --tokenize none --out runs/transfer

Trains the parent on `--parent-size` pairs (by default 29,000), then for each of `--sizes` a new model and models that
start from the parent. Other settings can be compared with `--ways`: `new` is a model without a parent and `init` one
with, each followed by settings, such as init+train.lr=2e-3. Each result is stored when it is known; the same command
goes on where it was stopped. The table has the validation BLEU (of the kept weights), the test BLEU (beam 5), the size
of the model and, with LoRA, of its adapter alone. In Multi30k the sources of parent and child are the same sentences.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from corpus_sizes import Bench, Job, measure, part_of, table

_WAYS = "new,init,init+train.init_tokenizer=keep,init+train.lora.rank=16"


class Row(NamedTuple):
    size: int
    way: str
    valid: float
    test: float
    model: int
    """Bytes of the weights, and of the adapter alone"""
    adapter: int


def train_parent(bench: Bench) -> Path:
    """Train the parent, unless that is done; return its folder."""
    options, folder = bench.options, bench.options.out / "parent"
    if not (folder / "model.safetensors").exists():
        files = part_of(options.parent, options.parent_size, options.out / "parent-data")
        command = ["train", *files, "--valid", *options.parent_valid, "--out", folder, "--resume"]
        settings = [part for setting in ("valid.samples=0", *options.set) for part in ("--set", setting)]
        if bench.regard([*command, *settings]) is None:
            raise SystemExit("the parent was not trained; run the same command again to continue")
    return Path(folder)


def recipe_of(way: str, parent: Path, settings: Sequence[str]) -> str:
    """Return a way as the recipe that corpus_sizes.py trains."""
    kind, *others = way.split("+")
    start = [f"train.init={parent}"] if kind == "init" else []
    return "+".join(["auto", *start, *settings, *others])


def rows_of(ways: dict[str, str], jobs: list[Job], results: dict[str, dict[str, Any]], bench: Bench) -> Iterator[Row]:
    """Yield a row for each size and way; `ways` are their names by recipe."""
    for size, recipe, valid, test, _ in table(jobs, results):
        folder = bench.folder(next(job for job in jobs if (job.size, job.recipe) == (size, recipe)))
        files = (folder / name for name in ("model.safetensors", "adapter/adapter.safetensors"))
        weights, adapter = (path.stat().st_size if path.exists() else 0 for path in files)
        yield Row(size, ways[recipe], valid, test, weights, adapter)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--parent", "--parent-valid", "--valid"):
        parser.add_argument(name, nargs=2, type=Path, required=True)
    parser.add_argument("--child", nargs=2, type=Path, required=True, dest="files")
    parser.add_argument("--test", nargs=2, type=Path)
    parser.add_argument("--parent-size", type=int, default=29_000)
    parser.add_argument("--sizes", default="1000,3000")
    parser.add_argument("--ways", default=_WAYS)
    parser.add_argument("--set", action="append", default=[], help="an option of all models, such as train.steps=500")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--tokenize", default="13a")
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e6, help="start nothing after this time, and stop what runs")
    parser.add_argument("--out", type=Path, default=Path("runs/transfer"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    bench = Bench(options, time.monotonic())
    ways = {recipe_of(way, train_parent(bench), options.set): way for way in options.ways.split(",")}
    sizes, seeds = (list(map(int, text.split(","))) for text in (options.sizes, options.seeds))
    jobs = [Job(size, recipe, seed) for size in sizes for recipe in ways for seed in seeds]
    results = measure(jobs, bench)
    print(f"{'pairs':>7}  {'valid':>6}  {'test':>6}  {'model':>8}  {'adapter':>8}  way")
    for row in rows_of(ways, jobs, results, bench):
        sizes_shown = "  ".join(f"{n / 1e6:5.1f} MB" if n else f"{'–':>8}" for n in (row.model, row.adapter))
        print(f"{row.size:7,}  {row.valid:6.2f}  {row.test:6.2f}  {sizes_shown}  {row.way}")


if __name__ == "__main__":
    main()
