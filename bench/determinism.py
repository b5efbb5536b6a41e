"""Bit-identical training on a GPU (`train.deterministic`): whether it holds, and what it costs.

    python bench/determinism.py                    # on a GPU: the numbers in docs/results.md, in about four minutes
    python bench/determinism.py --recipe tiny --speed-recipe tiny --steps 30 --updates 3 --pairs 600 --modes plain

For each mode (plain, compile, cuda_graphs and both), the same model is trained three times on the built-in corpus: one
run, the same again with its own cache of compiled code, and one that is killed in the middle (SIGKILL) and resumed.
The SHA-256 of their model.safetensors must be equal. All runs share the GPU, so that their kernels are scheduled
differently. Afterwards the time of an update is measured with and without the option, one after the other.
"""

import argparse
import hashlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it when CUDA starts

import numpy as np
import torch

from regard import models
from regard.data.batch_order import BatchConfig, PairBatches, StreamPosition
from regard.data.builtin.grammar_corpus import generate_corpus
from regard.data.pair_store import pair_store_from
from regard.text.tokenizer import TokenizerConfig, train_tokenizer
from regard.train.checkpoint import Checkpoints
from regard.train.log import RunLog
from regard.train.progress import Progress
from regard.train.recipe import load_recipe
from regard.train.trainer import Trainer

MODES = {
    "plain": (),
    "compile": ("compile",),
    "cuda_graphs": ("cuda_graphs",),
    "compile+cuda_graphs": ("compile", "cuda_graphs"),
}
OPTIONS = ("compile", "cuda_graphs")
PATIENCE = 300  # seconds to wait for a run to come half way


class Runs:
    """Trains one mode in new processes."""

    def __init__(self, mode: str, args: argparse.Namespace, folder: Path) -> None:
        self.mode, self.args, self.folder = mode, args, folder

    def compare(self) -> tuple[str, list[str]]:
        """Return the mode and the SHA-256 of the three trained models."""
        first, again = self.start("first"), self.start("again", cache="other-cache")
        killed = self.start("killed")
        self.kill_half_way(killed)
        resumed = self.start("killed")
        for name, process in {"first": first, "again": again, "killed": resumed}.items():
            if process.wait():
                raise RuntimeError(f"{self.mode}: training failed\n{self.log(name).read_text()[-3000:]}")
        return self.mode, [self.digest(name) for name in ("first", "again", "killed")]

    def start(self, name: str, cache: str = "cache") -> subprocess.Popen[bytes]:
        """Start a run, or continue the run of that name."""
        steps = self.args.steps
        settings = [
            *("train.deterministic=true", f"train.steps={steps}", f"train.save_every={max(1, steps // 5)}"),
            *(
                f"train.log_every={max(1, steps // 10)}",
                "train.average=none",
                "train.warmup=20",
                f"valid.every={steps}",
            ),
            *("valid.sentences=20", "valid.samples=0", "tokenizer.vocab_size=1500"),
            *(f"train.{option}={str(option in MODES[self.mode]).lower()}" for option in OPTIONS),
        ]
        data = [self.folder / name for name in ("train.en", "train.fr")]
        valid = [self.folder / name for name in ("valid.en", "valid.fr")]
        chosen = [word for setting in settings for word in ("--set", setting)]
        command = [sys.executable, "-m", "regard", "train", *data, "--valid", *valid, "--recipe", self.args.recipe]
        command += [*chosen, "--device", self.args.device, "--out", self.out(name), "--resume"]
        environment = {
            **os.environ,
            "REGARD_CACHE": str(self.folder / "data-cache"),
            "TORCHINDUCTOR_CACHE_DIR": str(self.folder / cache),
            "TORCHINDUCTOR_COMPILE_THREADS": "4",
        }
        self.log(name).parent.mkdir(exist_ok=True)
        with self.log(name).open("ab") as log:
            return subprocess.Popen(list(map(str, command)), env=environment, stdout=log, stderr=subprocess.STDOUT)

    def kill_half_way(self, process: subprocess.Popen[bytes]) -> None:
        metrics, deadline = self.out("killed") / "metrics.jsonl", time.monotonic() + PATIENCE
        while time.monotonic() < deadline and process.poll() is None:
            rows = [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.is_file() else []
            if rows and rows[-1]["step"] > self.args.steps // 2:
                break
            time.sleep(0.02)
        process.kill()
        if process.wait() != -signal.SIGKILL:
            log = self.log("killed").read_text()[-3000:]
            raise RuntimeError(f"{self.mode}: the run ended before it could be killed; use more --steps\n{log}")

    def out(self, name: str) -> Path:
        return self.folder / self.mode / name

    def log(self, name: str) -> Path:
        return self.folder / self.mode / f"{name}.log"

    def digest(self, name: str) -> str:
        return hashlib.sha256((self.out(name) / "model.safetensors").read_bytes()).hexdigest()


def write_corpus(folder: Path, n_pairs: int) -> None:
    corpus = generate_corpus(n_pairs, 50, 1)
    for split in ("train", "valid"):
        (folder / f"{split}.en").write_text("".join(f"{pair.src}\n" for pair in corpus[split]), encoding="utf-8")
        (folder / f"{split}.fr").write_text("".join(f"{pair.tgt}\n" for pair in corpus[split]), encoding="utf-8")


def milliseconds_per_update(args: argparse.Namespace, batches: PairBatches, **options: bool) -> float:
    """Return the median time of an update, after two passes over the same batches that compile and capture."""
    torch.compiler.reset()
    torch.manual_seed(1)
    recipe = load_recipe(args.speed_recipe)
    model = models.build(recipe.model, recipe.tokenizer.vocab_size).to(args.device).train()
    no_validation: Any = SimpleNamespace(fingerprint="")
    with tempfile.TemporaryDirectory() as name:
        log, checkpoints = RunLog(Path(name)), Checkpoints(Path(name), 2)
        trainer = Trainer(model, batches, no_validation, checkpoints, log, recipe.train.model_copy(update=options))
        with trainer.gradients.determinism():
            seconds = list(timed_passes(trainer, args.updates))
    return 1000 * statistics.median(seconds[2:]) / args.updates


def timed_passes(trainer: Trainer, updates: int) -> Iterator[float]:
    for _ in range(5):
        stream, progress = trainer.batches.stream(StreamPosition(0, 0)), Progress()
        start = time.perf_counter()
        for _ in range(updates):
            progress = trainer.update(stream, progress)
        if trainer.device.type == "cuda":
            torch.cuda.synchronize()
        yield time.perf_counter() - start


def measure_speed(args: argparse.Namespace) -> None:
    pairs = generate_corpus(args.pairs, 0, 1)["train"]
    tokenizer = train_tokenizer(
        (text for pair in pairs for text in (pair.src, pair.tgt)), TokenizerConfig(vocab_size=1500)
    )
    src, tgt = (tokenizer.encode([getattr(pair, side) for pair in pairs]) for side in ("src", "tgt"))
    tokens = load_recipe(args.speed_recipe).batch.tokens
    batches = PairBatches(pair_store_from(src, tgt), np.arange(len(pairs)), BatchConfig(tokens=tokens), seed=1)
    print(f"recipe {args.speed_recipe}, milliseconds per update")
    for mode in args.modes:
        on = {option: option in MODES[mode] for option in OPTIONS}
        without = milliseconds_per_update(args, batches, **on)
        with_it = milliseconds_per_update(args, batches, **on, deterministic=True)
        print(f"{mode:22}{without:9.2f}   deterministic {with_it:9.2f}   {with_it / without:5.2f} ×", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--recipe", default="small", help="trained for the comparison of bits")
    parser.add_argument("--speed-recipe", default="base", help="trained to measure the time of an update")
    parser.add_argument("--steps", type=int, default=200, help="updates of each compared run")
    parser.add_argument("--updates", type=int, default=20, help="updates of each timed pass")
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--modes", nargs="*", choices=[*MODES], default=[*MODES])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()

    print(torch.cuda.get_device_name() if args.device.startswith("cuda") else "CPU", "torch", torch.__version__)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        write_corpus(Path(name), args.pairs)
        with ThreadPoolExecutor() as pool:
            results = list(pool.map(lambda mode: Runs(mode, args, Path(name)).compare(), args.modes))
    for mode, digests in results:
        verdict = "identical" if len(set(digests)) == 1 else "DIFFERENT"
        print(f"{mode:22}run, again, killed and resumed: {verdict}   {' '.join(digest[:12] for digest in digests)}")
    print(f"{time.perf_counter() - start:.0f} s", flush=True)
    measure_speed(args)
    print(f"{time.perf_counter() - start:.0f} s in total")
    sys.exit(any(len(set(digests)) > 1 for _, digests in results))


if __name__ == "__main__":
    main()
