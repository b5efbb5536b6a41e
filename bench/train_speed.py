"""Training speed of the base recipe compared with Hugging Face MarianMT of the same size, in the same run.

    python bench/train_speed.py                    # on a GPU: the numbers in docs/results.md
    python bench/train_speed.py --tokens 1000 --steps 3 --vocab 1000 --layers 1 --width 64    # a quick check

Both train on the same random pairs with lengths as in WMT data (log-normal, mean 28 tokens), with bf16 autocast on a
GPU, dropout 0.1, label smoothing 0.1 and fused Adam. Our side runs the real trainer including the data pipeline, while
the batches of Hugging Face are already on the device. Speeds are in target tokens per second, without padding. The
systems take turns, so that other work on the machine slows all of them: the medians of `--rounds` passes are shown.
"""

import regard  # noqa: F401  before torch, because it limits how long torch's threads spin

# isort: split

import argparse
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

from marian import marian_model
from regard import models
from regard.data.batch import Batch
from regard.data.batch_order import BatchConfig, PairBatches, StreamPosition
from regard.data.pair_store import PairStore, pair_store_from
from regard.text.vocab import PAD, SPECIALS
from regard.train.checkpoint import Checkpoints
from regard.train.log import RunLog
from regard.train.progress import Progress
from regard.train.train_config import TrainConfig
from regard.train.trainer import Trainer


def random_pairs(n: int, vocab: int, mean: float = 28.0, sigma: float = 0.6, seed: int = 1) -> PairStore:
    """Return random pairs with log-normal lengths; the target length differs from the source length by about 15 %."""
    generator = np.random.default_rng(seed)
    src = generator.lognormal(math.log(mean) - sigma**2 / 2, sigma, n)
    tgt = src * generator.lognormal(0.0, 0.15, n)

    def side(lengths: np.ndarray) -> list[list[int]]:
        sizes = np.clip(lengths.round().astype(int), 1, 254)
        return [generator.integers(len(SPECIALS), vocab, size).tolist() for size in sizes]

    return pair_store_from(side(src), side(tgt))


def real_tokens(batch: Batch) -> int:
    return int((batch.tgt_out != PAD).sum())


def clock(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def ours(args: argparse.Namespace, batches: PairBatches, device: torch.device, **options: bool) -> Callable[[], None]:
    """Return a pass of our trainer over the first batches; everything is compiled and recorded."""
    config = {
        "d_model": args.width,
        "d_ff": 4 * args.width,
        "n_layers": args.layers,
        "n_heads": args.width // 64,
    }
    torch.manual_seed(1)
    model = models.build(config, vocab_size=args.vocab).to(device)
    folder = Path(tempfile.mkdtemp())
    trainer = Trainer(
        model,
        batches,
        None,  # type: ignore[arg-type]  # there is no validation here
        Checkpoints(folder, keep=2),
        RunLog(folder),
        TrainConfig.parse(options),
    )
    model.train()
    for _ in range(2):
        run_updates(trainer, args.steps)
    return lambda: run_updates(trainer, args.steps)


def run_updates(trainer: Trainer, n: int) -> None:
    stream, progress = trainer.batches.stream(StreamPosition(0, 0)), Progress()
    for _ in range(n):
        progress = trainer.update(stream, progress)


def marian(
    args: argparse.Namespace, batches: PairBatches, device: torch.device, compiled: bool = False
) -> Callable[[], None]:
    """Return a pass of MarianMTModel over the first batches, in a plain training loop."""
    model = marian_model(args.vocab, args.width, args.layers, device).train()
    run = torch.compile(model, dynamic=True) if compiled else model
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), fused=True)
    loss_of = torch.nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)

    def update(batch: Batch) -> None:
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda"):
            logits = run(
                input_ids=batch.src, attention_mask=(batch.src != PAD).long(), decoder_input_ids=batch.tgt_in
            ).logits
            loss = loss_of(logits.flatten(0, 1), batch.tgt_out.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    ready = first_batches(batches, args.steps, device)

    def run_all() -> None:
        for batch in ready:
            update(batch)

    run_all()
    return run_all


def median_seconds(passes: dict[str, Callable[[], None]], device: torch.device, rounds: int) -> dict[str, float]:
    """Return the median time of each pass; they take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in passes}
    for _ in range(rounds):
        for name, run in passes.items():
            start = clock(device)
            run()
            seconds[name].append(clock(device) - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


def first_batches(batches: PairBatches, n: int, device: torch.device) -> list[Batch]:
    stream: Iterator[tuple[StreamPosition, Batch]] = batches.stream(StreamPosition(0, 0))
    return [next(stream)[1].to(device) for _ in range(n)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--tokens", type=int, default=25_000, help="padded tokens per batch and side")
    parser.add_argument("--vocab", type=int, default=37_000)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--all",
        action="store_true",
        help="also measure a compiled MarianMT and our model without torch.compile and CUDA graphs",
    )
    args = parser.parse_args()

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda":
        print(torch.cuda.get_device_name(), "torch", torch.__version__)
    store = random_pairs(2 * args.steps * args.tokens // 28, args.vocab)
    batches = PairBatches(store, np.arange(len(store)), BatchConfig(tokens=args.tokens, workers=4), seed=1)
    sample = first_batches(batches, 50, torch.device("cpu"))
    padding = 1 - sum(real_tokens(b) for b in sample) / sum(b.tgt_out.numel() for b in sample)
    n_shapes = len({b.src.shape + b.tgt_in.shape for b in sample})
    print(f"padding: {padding:.1%} of the target side; {n_shapes} shapes in 50 batches")

    passes = {"Hugging Face MarianMT, eager": marian(args, batches, device)}
    if args.all:
        passes["Hugging Face MarianMT, compiled"] = marian(args, batches, device, compiled=True)
        passes["regard, eager"] = ours(args, batches, device, compile=False, cuda_graphs=False)
        passes["regard, compiled"] = ours(args, batches, device, compile=True, cuda_graphs=False)
    passes["regard"] = ours(args, batches, device)
    seconds = median_seconds(passes, device, args.rounds)
    tokens = sum(real_tokens(batch) for batch in first_batches(batches, args.steps, torch.device("cpu")))
    base = seconds["Hugging Face MarianMT, eager"]
    for name, value in seconds.items():
        per_update = f"{value / args.steps * 1000:9.1f} ms per update"
        print(f"{name:34}{tokens / value:12,.0f} target tokens/s{per_update}{base / value:8.2f} ×")


if __name__ == "__main__":
    main()
