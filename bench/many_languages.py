"""One model for several language pairs against one model for each: BLEU of both on every test set.

    python bench/many_languages.py data.yaml --tokenize none --out runs/many

`data.yaml` is a file for `regard train --data`, whose corpora have `languages`, `valid` and `test`. `--minutes` is the
time for each single model, and `--all-minutes` that of the common one; by default each is trained completely.
`--size N` takes N pairs of each corpus, chosen at random but always the same. Settings for all trainings follow after
`--set`. What is trained stays; the same command goes on where it was stopped.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import yaml

from corpus_sizes import Bench, part_of

Corpus = dict[str, Any]
"""An entry of the YAML file, with absolute paths"""
PATHS = ("files", "valid", "test")


def read_data(path: Path, size: int | None, out: Path) -> dict[str, Any]:
    """Return the file with absolute paths; each corpus has `size` of its pairs."""
    data: dict[str, Any] = yaml.safe_load(path.read_text())
    corpora: list[Corpus] = data["corpora"]
    if len({corpus["languages"] for corpus in corpora}) < len(corpora):
        raise SystemExit(f"{path}: give one corpus for each language pair")
    for corpus in corpora:
        for key in PATHS:
            corpus[key] = [(path.parent / name).resolve() for name in corpus[key]]
        if size:
            corpus["files"] = [p.resolve() for p in part_of(corpus["files"], size, out / corpus["languages"])]
    return data


def write_data(data: dict[str, Any], path: Path) -> Path:
    """Write a file for `regard train --data`; return its path."""
    relative = [
        corpus | {key: [os.path.relpath(p, path.parent.resolve()) for p in corpus[key]] for key in PATHS}
        for corpus in data["corpora"]
    ]
    path.write_text(yaml.safe_dump(data | {"corpora": relative}))
    return path


def train(bench: Bench, folder: Path, data: list[object], minutes: float | None) -> None:
    """Train a model, unless that is done."""
    if (folder / "model.safetensors").exists():
        return
    settings = [part for setting in ("valid.samples=0", *bench.options.set) for part in ("--set", setting)]
    time_limit = ["--minutes", minutes] if minutes else []
    if bench.regard(["train", *data, "--out", folder, "--resume", *time_limit, *settings]) is None:
        raise SystemExit(f"{folder} was not trained; run the same command again to continue")


def bleu(bench: Bench, folder: Path, corpus: Corpus, side: str, to: str | None = None) -> float:
    """Return the BLEU of a model with beam 5 on the validation or test data of a corpus."""
    options = ["--tokenize", bench.options.tokenize, "--beam", 5, "--json", *(["--to", to] if to else [])]
    printed = bench.regard(["evaluate", folder, *corpus[side], *options])
    if printed is None:
        raise SystemExit(f"{folder} could not be evaluated")
    return float(json.loads(printed)["scores"]["BLEU"]["score"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--size", type=int)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--all-minutes", type=float)
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE")
    parser.add_argument("--tokenize", default="13a")
    parser.add_argument("--seconds", type=float, default=1e6, help="stop after this time")
    parser.add_argument("--out", type=Path, default=Path("runs/many"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    bench = Bench(options, time.monotonic())
    data = read_data(options.data, options.size, options.out)
    common = options.out / "all"
    train(bench, common, ["--data", write_data(data, options.out / "data.yaml")], options.all_minutes)
    print(f"{'':>8}  {'validation':>18}  {'test':>18}\n{'':>8}  " + f"{'own':>8}  {'one':>8}  " * 2, flush=True)
    for corpus in data["corpora"]:
        own, to = options.out / corpus["languages"], corpus["languages"].partition("-")[2]
        files = ["--languages", corpus["languages"], "--valid", *corpus["valid"]]
        train(bench, own / "model", [*corpus["files"], *files], options.minutes)
        scores = [
            score
            for side in ("valid", "test")
            for score in (bleu(bench, own / "model", corpus, side), bleu(bench, common, corpus, side, to))
        ]
        print(f"{corpus['languages']:>8}  " + "  ".join(f"{score:8.2f}" for score in scores), flush=True)


if __name__ == "__main__":
    main()
