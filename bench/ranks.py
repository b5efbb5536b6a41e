"""Train the same model with 1, 2 and 4 ranks, and with changing numbers of them, and compare losses and BLEU.

    python bench/ranks.py

Prints for each way to train: the largest difference from the loss of one process over all updates, the BLEU of the
last validation, and the time. Dropout is on: it depends on the parts of a batch (train.parts), not on the ranks.
"""

import os
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from pathlib import Path

from regard.data.builtin.grammar_corpus import generate_corpus
from regard.train.log import read_metrics

STEPS = 200
WAYS: dict[str, tuple[tuple[int, int, bool], ...]] = {
    "1 process": ((0, STEPS, False),),
    "1 rank": ((1, STEPS, False),),
    "2 ranks": ((2, STEPS, False),),
    "4 ranks": ((4, STEPS, False),),
    "2 ranks, then 4, then 1": ((2, 80, False), (4, 140, False), (1, STEPS, False)),
    "2 ranks, sharded": ((2, STEPS, True),),
    "2 ranks sharded, then 1 process": ((2, 100, True), (0, STEPS, False)),
}
"""Ranks (0: without torchrun), the last update, and whether weights are divided, of each part of a run"""


def write_data(folder: Path) -> list[Path]:
    """Write the files of the built-in corpus and return train.en, train.fr, valid.en, valid.fr."""
    files = []
    for split, pairs in generate_corpus(10_000, 300, 1).items():
        for side, lines in (("en", [pair.src for pair in pairs]), ("fr", [pair.tgt for pair in pairs])):
            files.append(folder / f"{split}.{side}")
            files[-1].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return files[:4]


def train(files: list[Path], out: Path, ranks: int, steps: int, shard: bool) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    settings = (
        *(f"train.steps={steps}", "train.schedule=inverse-sqrt", "train.warmup=50", "train.lr=3e-3"),
        *("train.parts=4", "train.log_every=1", "valid.every=100", "model.dropout=0.1"),
        *(["train.shard=true"] if shard else []),
    )
    command = [*(torchrun if ranks else [sys.executable]), "-m", "regard", "train", *map(str, files[:2])]
    command += ["--valid", *map(str, files[2:]), "--out", str(out), "--recipe", "tiny", "--allow-inexact"]
    command += [word for setting in settings for word in ("--set", setting)]
    command += ["--resume"] if out.exists() else []
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode:
        sys.exit(done.stderr)


def main() -> None:
    parser = ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.parse_args()
    expected: dict[int, float] = {}
    print("| | largest difference of the loss | BLEU | seconds |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        files = write_data(Path(folder))
        for number, (name, parts) in enumerate(WAYS.items()):
            out, start = Path(folder) / str(number), time.monotonic()
            for ranks, steps, shard in parts:
                train(files, out, ranks, steps, shard)
            rows = read_metrics(out / "metrics.jsonl")
            losses = {row["step"]: row["loss"] for row in rows if "loss" in row}
            assert sorted(losses) == list(range(1, STEPS + 1)), "each update is recorded once"
            expected = expected or losses
            largest = max(abs(losses[step] - expected[step]) for step in losses)
            bleu = next(row["bleu"] for row in reversed(rows) if row.get("bleu") is not None)
            print(f"| {name} | {largest:.1e} | {bleu:.2f} | {time.monotonic() - start:.0f} |", flush=True)


if __name__ == "__main__":
    main()
