"""Where the time of an update goes on a GPU, and whether the fused kernels compute what the equations say.

    python bench/train_profile.py                    # everything, about four minutes
    python bench/train_profile.py kernels base       # some sections: kernels, base, small, losses, start

Each section prints as it goes and does not stop the others if it fails.
"""

import argparse
import collections
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from regard import models
from regard.data.batch_order import BatchConfig, PairBatches
from regard.data.pair_store import PairStore, pair_store_from
from regard.nn.dropout import Dropout
from regard.text.vocab import PAD
from regard.train.checkpoint import Checkpoints
from regard.train.log import RunLog
from regard.train.loss import LossConfig, loss_from_logits
from regard.train.progress import Progress
from regard.train.trainer import TrainConfig, Trainer
from train_speed import clock, first_batches, random_pairs, real_tokens, run_updates

DEVICE = torch.device("cuda")
BASE: dict[str, Any] = {"d_model": 512, "d_ff": 2048, "n_layers": 6, "n_heads": 8}
SMALL: dict[str, Any] = {"d_model": 256, "d_ff": 1024, "n_layers": 3, "n_heads": 4}
MULTI30K: dict[str, Any] = {"d_model": 256, "d_ff": 512, "n_layers": 4, "n_heads": 4, "dropout": 0.2}
PLAIN: dict[str, Any] = {"fused_kernels": False, "compile": False, "cuda_graphs": False}
COMPILED: dict[str, Any] = {"fused_kernels": False, "compile": True}

GROUPS = {
    "attention": ("flash", "fmha", "attention", "sdpa", "cudnn"),
    "gemm": ("nvjet", "gemm", "cutlass", "sm90", "splitk"),
    "ours": ("_kernel",),
    "memory": ("memcpy", "memset", "copy"),
    "optimizer": ("multi_tensor",),
    "compiled": ("triton",),
    "reduce": ("reduce",),
    "embedding": ("embedding", "index", "sort", "radix"),
    "elementwise": ("elementwise", "layer_norm", "dropout"),
}


def milliseconds(run: Callable[[], object], n: int = 20) -> float:
    for _ in range(3):
        run()
    start = clock(DEVICE)
    for _ in range(n):
        run()
    return (clock(DEVICE) - start) / n * 1000


@cache
def pairs(n: int, vocab: int) -> PairStore:
    return random_pairs(n, vocab)


def make_trainer(model: dict[str, Any], batches: PairBatches, vocab: int, options: dict[str, Any]) -> Trainer:
    torch.manual_seed(1)
    built = models.build(model, vocab_size=vocab).to(DEVICE).train()
    folder = Path(tempfile.mkdtemp())
    no_validator: Any = None
    return Trainer(
        built, batches, no_validator, Checkpoints(folder, keep=2), RunLog(folder), TrainConfig.parse(options)
    )


def group_of(kernel: str) -> str:
    name = kernel.lower()
    if name.startswith("_") and name.endswith("_kernel"):
        return "ours"
    return next((group for group, parts in GROUPS.items() if any(part in name for part in parts)), "other")


def print_kernels(trainer: Trainer, n: int = 20, top: int = 32) -> None:
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        run_updates(trainer, n)
        torch.cuda.synchronize()
    time_of: collections.Counter[str] = collections.Counter()
    count_of: collections.Counter[str] = collections.Counter()
    for event in profiled.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            time_of[event.name] += event.device_time
            count_of[event.name] += 1
    groups: collections.Counter[str] = collections.Counter()
    for name, value in time_of.items():
        groups[group_of(name)] += value
    scale = 1 / n / 1000
    print(f"    kernels: {sum(time_of.values()) * scale:.2f} ms, {sum(count_of.values()) / n:.0f} per update")
    for group, value in groups.most_common():
        print(f"      {group:12}{value * scale:8.3f} ms")
    for name, value in time_of.most_common(top):
        print(f"        {value * scale:8.3f} ms {count_of[name] / n:7.1f} x {name[:100]}")


def measure(
    name: str, model: dict[str, Any], tokens: int, vocab: int, options: dict[str, Any], kernels: bool = False
) -> None:
    """Print the time of an update."""
    n = 50
    store = pairs(2 * n * tokens // 28, vocab)
    batches = PairBatches(store, np.arange(len(store)), BatchConfig(tokens=tokens, workers=4), seed=1)
    real = sum(real_tokens(batch) for batch in first_batches(batches, n, torch.device("cpu"))) / n
    trainer = make_trainer(model, batches, vocab, options)
    torch.cuda.reset_peak_memory_stats()
    start = clock(DEVICE)
    run_updates(trainer, 1)
    first = clock(DEVICE)
    for _ in range(2):
        run_updates(trainer, n)
    warm = clock(DEVICE)
    for _ in range(3):
        run_updates(trainer, n)
    seconds = (clock(DEVICE) - warm) / 3 / n
    peak = torch.cuda.max_memory_allocated() / 2**30
    print(
        f"  {name}: {seconds * 1000:.2f} ms per update, {real / seconds:,.0f} target tokens/s; first update "
        f"{first - start:.1f} s, next {2 * n} {warm - first:.1f} s; peak {peak:.1f} GiB",
        flush=True,
    )
    if kernels:
        print_kernels(trainer)
    del trainer
    torch.cuda.empty_cache()


def check(name: str, fused: Callable[..., Any], plain: Callable[..., Any], inputs: list[Tensor]) -> None:
    """Print the greatest difference of results and gradients from those in float32, and the times."""

    def run(f: Callable[..., Any], tensors: list[Tensor]) -> list[Tensor]:
        leaves = [t.detach().clone().requires_grad_() for t in tensors]
        results = f(*(leaf * 1 for leaf in leaves))
        results = results if isinstance(results, tuple) else (results,)
        torch.manual_seed(5)
        weighted = sum((r * torch.randn(r.shape, device=DEVICE)).sum() for r in results if r.requires_grad)
        weighted.backward()
        return [*(r.detach() for r in results), *(leaf.grad for leaf in leaves if leaf.grad is not None)]

    expected = run(plain, [t.float() for t in inputs])
    errors = {}
    for kind, f in (("fused", fused), ("plain", plain)):
        found = run(f, inputs)
        errors[kind] = [
            f"{(a.float() - b).abs().max() / b.abs().max():.1e}" for a, b in zip(found, expected, strict=True)
        ]
    times = {kind: milliseconds(lambda f=f: run(f, inputs)) for kind, f in (("fused", fused), ("plain", plain))}
    print(f"  {name}: error {errors['fused']} (plain bf16 {errors['plain']})")
    print(f"    forward and backward {times['fused']:.3f} ms, plain {times['plain']:.3f} ms", flush=True)


def kernels() -> None:
    from regard.nn.kernels.cross_entropy import FusedCrossEntropy
    from regard.nn.kernels.residual_norm import DropoutPlace, FusedResidualNorm
    from regard.nn.kernels.short_attention import FusedShortAttention

    torch.manual_seed(0)
    half = {"device": DEVICE, "dtype": torch.bfloat16}
    for n_words, r_drop in ((37_000, 0.0), (8_000, 5.0)):
        targets = torch.randint(0, n_words, (32, 64), device=DEVICE)
        targets[:, 50:] = PAD
        targets[16:] = targets[:16]
        config = LossConfig(r_drop=r_drop)
        check(
            f"cross-entropy, {n_words} words, r_drop {r_drop}",
            lambda z, y=targets, r=r_drop: FusedCrossEntropy.apply(z, y, 0.1, r, PAD),
            lambda z, y=targets, c=config: loss_from_logits(z, y, c),
            [torch.randn(32, 64, n_words, **half)],
        )
    x, y = torch.randn(2, 780, 32, 512, **half)
    check(
        "residual and norm",
        lambda x, y, w, b: FusedResidualNorm.apply(x, y, w, b, 1e-5, None),
        lambda x, y, w, b: (x + y, F.layer_norm((x + y).float(), (512,), w.float(), b.float()).to(x.dtype)),
        [x, y, torch.randn(512, device=DEVICE), torch.randn(512, device=DEVICE)],
    )
    seed = torch.randint(-(2**31), 2**31, (2,), dtype=torch.int32, device=DEVICE)
    weights = torch.ones(512, device=DEVICE), torch.zeros(512, device=DEVICE)
    masks = [
        FusedResidualNorm.apply(0 * x, torch.ones_like(x), *weights, 1e-5, DropoutPlace(0.1, seed, i))[0] == 0
        for i in (0, 1)
    ]
    both = (masks[0] & masks[1]).float().mean().item()
    print(f"  dropout 0.1: {masks[0].float().mean().item():.5f}, two places at once {both:.5f}")
    inputs = [x.clone().requires_grad_(), y.clone().requires_grad_()]

    def with_dropout() -> None:
        total, out = FusedResidualNorm.apply(*inputs, *weights, 1e-5, DropoutPlace(0.1, seed, 3))
        torch.autograd.backward([total, out], [x, y])

    def eager() -> None:
        total = Dropout(0.1).train().add(*inputs)
        torch.autograd.backward([total, F.layer_norm(total, (512,))], [x, y])

    print(f"    with dropout {milliseconds(with_dropout):.3f} ms, eager {milliseconds(eager):.3f} ms", flush=True)
    for rows, n_queries, n_keys, causal in (
        (1560, 16, 16, False),
        (780, 32, 32, True),
        (624, 40, 40, False),
        (390, 64, 64, True),
        (195, 128, 128, False),
    ):
        mask = (
            None
            if causal
            else torch.arange(n_keys, device=DEVICE) < torch.randint(1, n_keys + 1, (rows, 1), device=DEVICE)
        )
        mask = None if mask is None else mask[:, None, None]
        sdpa = lambda q, k, v, m=mask, c=causal: F.scaled_dot_product_attention(q, k, v, m, is_causal=c)  # noqa: E731
        projected = [torch.randn(rows, n, 8, 64, **half).transpose(1, 2) for n in (n_queries, n_keys, n_keys)]
        check(
            f"attention {rows} x 8 x {n_queries} x {n_keys}{' causal' if causal else ' masked'}",
            lambda q, k, v, m=mask, c=causal: FusedShortAttention.apply(q, k, v, m, c),
            sdpa,
            projected,
        )


def base() -> None:
    measure("base, default", BASE, 25_000, 37_000, {}, kernels=True)
    measure("base, compiled, no fused kernels", BASE, 25_000, 37_000, COMPILED)
    measure("base, compiled, fused loss", BASE, 25_000, 37_000, {"compile": True})


def small() -> None:
    measure("small, default", SMALL, 6_000, 8_000, {}, kernels=True)
    measure("small, plain", SMALL, 6_000, 8_000, PLAIN)
    measure("multi30k, default", MULTI30K, 8_192, 8_000, {"r_drop": 5.0}, kernels=True)
    measure("multi30k, compiled", MULTI30K, 8_192, 8_000, {"r_drop": 5.0, **COMPILED})


def losses() -> None:
    """Compare the loss of 500 updates; the task is to reverse a sequence."""
    generator = np.random.default_rng(1)
    sources = [generator.integers(6, 200, generator.integers(4, 20)).tolist() for _ in range(20_000)]
    store = pair_store_from(sources, [source[::-1] for source in sources])
    for name, options in (("default", {}), ("plain", PLAIN), ("plain, fp32", {**PLAIN, "precision": "fp32"})):
        batches = PairBatches(store, np.arange(len(store)), BatchConfig(tokens=4096, workers=4), seed=1)
        trainer = make_trainer(SMALL, batches, 200, {"lr": 1e-3, "warmup": 100, **options})
        progress, stream = Progress(), batches.stream((0, 0))  # type: ignore[arg-type]
        values = []
        for _ in range(5):
            for _ in range(100):
                progress = trainer.update(stream, progress)
            values.append(f"{trainer.meter.read()['loss']:.4f}")
        print(f"  {name}: mean loss of each 100 updates {values}", flush=True)


def start() -> None:
    """Measure 2,000 updates of recipe multi30k from the command to the model: on its files, or on built-in pairs."""
    from regard.data.builtin.datasets import DatasetOptions, write_dataset

    folder = Path(tempfile.mkdtemp())
    files = [Path("shared/data/multi30k") / f"train.lc.norm.tok.{language}.gz" for language in ("de", "en")]
    if not files[0].is_file():
        files = write_dataset("grammar", folder / "data", DatasetOptions(size=29_000))[:2]
    command = [sys.executable, "-m", "regard", "train", *map(str, files), "--recipe", "multi30k"]
    command += ["--out", str(folder / "run"), "--set", "tokenizer.dropout=0.1"]
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout or ():
            print(f"    {time.perf_counter() - begin:6.1f} s  {line.rstrip()[:150]}", flush=True)
    print(f"  {time.perf_counter() - begin:.1f} s from command to model, exit code {process.returncode}")


SECTIONS = {"kernels": kernels, "base": base, "small": small, "losses": losses, "start": start}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="default: all")
    chosen = parser.parse_args().sections or list(SECTIONS)
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    for name in chosen:
        begin = time.perf_counter()
        print(f"== {name}", flush=True)
        try:
            SECTIONS[name]()
        except Exception:
            print("  failed: " + " | ".join(traceback.format_exc().splitlines()[-12:]))
        print(f"== {name} took {time.perf_counter() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
