"""Where the time of an update goes on a GPU, and whether the fused kernels compute what the equations say.

    python bench/train_profile.py                    # everything, about three minutes
    python bench/train_profile.py kernels base       # some sections: kernels, tune, base, small, losses, start, capture

Each section prints as it goes and does not stop the others if it fails.
"""

import argparse
import collections
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from regard import models
from regard.data.batch_order import BatchConfig, PairBatches
from regard.data.pair_store import PairStore, pair_store_from
from regard.text.vocab import PAD
from regard.train.checkpoint import Checkpoints
from regard.train.cuda_graphs import GraphRunner
from regard.train.log import RunLog
from regard.train.loss import LossConfig, loss_from_logits
from regard.train.progress import Progress
from regard.train.train_config import TrainConfig
from regard.train.trainer import Trainer
from train_speed import clock, first_batches, random_pairs, real_tokens, run_updates

DEVICE = torch.device("cuda")
BASE: dict[str, Any] = {"d_model": 512, "d_ff": 2048, "n_layers": 6, "n_heads": 8}
SMALL: dict[str, Any] = {"d_model": 256, "d_ff": 1024, "n_layers": 3, "n_heads": 4}
MULTI30K: dict[str, Any] = {"d_model": 256, "d_ff": 512, "n_layers": 4, "n_heads": 4, "dropout": 0.2}
PLAIN: dict[str, Any] = {"fused_kernels": False, "compile": False, "cuda_graphs": False}

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


class KernelTimes(NamedTuple):
    """What kernels took, per run."""

    milliseconds: collections.Counter[str]
    counts: collections.Counter[str]

    @property
    def total(self) -> float:
        return sum(self.milliseconds.values())


def kernel_times(run: Callable[[], object], n: int) -> KernelTimes:
    """Return the times of kernels while `run` is called n times, which are not disturbed by the time to launch them."""
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        for _ in range(n):
            run()
        torch.cuda.synchronize()
    times = KernelTimes(collections.Counter(), collections.Counter())
    for event in profiled.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            times.milliseconds[event.name] += event.device_time / n / 1000
            times.counts[event.name] += 1 / n
    return times


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


def print_kernels(trainer: Trainer, n: int = 20, top: int = 40) -> None:
    times = kernel_times(lambda: run_updates(trainer, n), 1)
    groups: collections.Counter[str] = collections.Counter()
    for name, value in times.milliseconds.items():
        groups[group_of(name)] += value
    print(f"    kernels: {times.total / n:.2f} ms, {sum(times.counts.values()) / n:.0f} per update")
    for group, value in groups.most_common():
        print(f"      {group:12}{value / n:8.3f} ms")
    for name, value in times.milliseconds.most_common(top):
        print(f"        {value / n:8.3f} ms {times.counts[name] / n:7.1f} x {name[:100]}")


@contextmanager
def timed_graphs() -> Iterator[collections.Counter[str]]:
    """Yield the seconds that runs before a capture, and captures, take in the block."""
    seconds: collections.Counter[str] = collections.Counter()
    originals = {name: getattr(GraphRunner, name) for name in ("_run_on_stream", "_capture")}

    def timed(name: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            begin = clock(DEVICE)
            result = originals[name](*args)
            seconds[name] += clock(DEVICE) - begin
            seconds[f"number of {name}"] += 1
            return result

        return call

    for name in originals:
        setattr(GraphRunner, name, timed(name))
    try:
        yield seconds
    finally:
        for name, original in originals.items():
            setattr(GraphRunner, name, original)


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
    with timed_graphs() as graphs:
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
    print("    " + ", ".join(f"{name} {value:.1f}" for name, value in sorted(graphs.items())), flush=True)
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
    weights = run(plain, inputs)

    def repeat(f: Callable[..., Any]) -> None:
        leaves = [t.detach().requires_grad_() for t in inputs]
        results = f(*(leaf * 1 for leaf in leaves))
        results = [r for r in (results if isinstance(results, tuple) else (results,)) if r.requires_grad]
        torch.autograd.backward(results, weights[: len(results)])

    times = {kind: kernel_times(lambda f=f: repeat(f), 5) for kind, f in (("fused", fused), ("plain", plain))}
    print(f"  {name}: error {errors['fused']} (plain bf16 {errors['plain']})")
    parts = ", ".join(f"{key} {value:.3f}" for key, value in times["fused"].milliseconds.items() if key[0] == "_")
    print(f"    kernels {times['fused'].total:.3f} ms ({parts}), plain {times['plain'].total:.3f} ms", flush=True)


def kernels() -> None:
    from regard.nn.kernels.cross_entropy import FusedCrossEntropy
    from regard.nn.kernels.linear import FusedLinear, FusedLinearGelu
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
    for name, fused, plain in (
        ("linear", FusedLinear, F.linear),
        ("linear and GELU", FusedLinearGelu, lambda *inputs: F.gelu(F.linear(*inputs))),
    ):
        check(name, fused.apply, plain, [x, torch.randn(2048, 512, **half) / 16, torch.randn(2048, **half)])
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


def tune() -> None:
    """Print the kernels' times for several sizes of their blocks."""
    from regard.nn.kernels import column_sums, cross_entropy, residual_norm, short_attention

    half = {"device": DEVICE, "dtype": torch.bfloat16}
    x, y, d = torch.randn(3, 780, 32, 512, **half)
    norm = torch.ones(512, device=DEVICE), torch.zeros(512, device=DEVICE)
    place = residual_norm.DropoutPlace(0.1, torch.randint(0, 2**31, (2,), dtype=torch.int32, device=DEVICE), 3)

    def residual() -> None:
        inputs = [x.detach().requires_grad_(), y.detach().requires_grad_()]
        torch.autograd.backward(residual_norm.FusedResidualNorm.apply(*inputs, *norm, 1e-5, place), [d, d])

    logits = torch.randn(12_500, 37_000, **half)
    targets = torch.randint(6, 37_000, (12_500,), device=DEVICE)

    def loss() -> None:
        z = logits.detach().requires_grad_().view_as(logits)
        cross_entropy.FusedCrossEntropy.apply(z, targets, 0.1, 0.0, PAD)[0].backward()

    wide = torch.randn(25_000, 2048, **half)

    def attention(n: int) -> None:
        leaf = torch.randn(25_000 // n, n, 3, 8, 64, **half).requires_grad_()
        q, k, v = (part.transpose(1, 2) for part in leaf.unbind(2))
        out = short_attention.FusedShortAttention.apply(q, k, v, None, True)
        out.backward(out)

    for run, module, names, values in (
        (residual, residual_norm, ("_BACKWARD_TILE", "_BACKWARD_WARPS", "_PROGRAMS"), RESIDUAL_TILES),
        (
            loss,
            cross_entropy,
            ("_BLOCK", "_WARPS"),
            ((2048, 4), (2048, 8), (4096, 4), (4096, 8), (8192, 8), (8192, 16)),
        ),
        (lambda: column_sums.column_sums(wide), column_sums, ("_PROGRAMS",), ((264,), (528,), (1056,), (2112,))),
        (lambda: attention(16), short_attention, ("_NUMBERS_PER_WARP",), ((128,), (256,))),
        (lambda: attention(32), short_attention, ("_NUMBERS_PER_WARP",), ((256,), (512,), (1024,))),
        (lambda: attention(64), short_attention, ("_NUMBERS_PER_WARP",), ((512,), (1024,), (2048,))),
    ):
        for chosen in values:
            with ExitStack() as stack:
                for name, value in zip(names, chosen, strict=True):
                    stack.enter_context(patch.object(module, name, value))
                run()
                times = kernel_times(run, 10).milliseconds
            ours = "  ".join(f"{name} {value * 1000:.0f} us" for name, value in times.items() if name.startswith("_"))
            print(f"  {dict(zip(names, chosen, strict=True))}: {ours}", flush=True)


RESIDUAL_TILES = (
    (2048, 4, 528),
    (1024, 2, 1056),
    (1024, 2, 2112),
    (512, 1, 2112),
    (512, 2, 2112),
    (512, 2, 4224),
)


def base() -> None:
    measure("base", BASE, 25_000, 37_000, {}, kernels=True)


def capture() -> None:
    """Measure base if only the first shape runs before it is captured."""

    class AtOnce(GraphRunner):
        def __call__(self, *inputs: Tensor) -> Tensor:
            if self.known:
                self.known.add(tuple(tensor.shape for tensor in inputs))
            return super().__call__(*inputs)

    with patch("regard.train.gradients.GraphRunner", AtOnce):
        measure("base, captured at once", BASE, 25_000, 37_000, {})


def small() -> None:
    measure("small", SMALL, 6_000, 8_000, {}, kernels=True)
    measure("multi30k", MULTI30K, 8_192, 8_000, {"r_drop": 5.0}, kernels=True)


def losses() -> None:
    """Compare the loss of 300 updates; the task is to reverse a sequence."""
    generator = np.random.default_rng(1)
    sources = [generator.integers(6, 200, generator.integers(4, 20)).tolist() for _ in range(20_000)]
    store = pair_store_from(sources, [source[::-1] for source in sources])
    for name, options in (("default", {}), ("plain", PLAIN), ("plain, fp32", {**PLAIN, "precision": "fp32"})):
        batches = PairBatches(store, np.arange(len(store)), BatchConfig(tokens=4096, workers=4), seed=1)
        trainer = make_trainer(SMALL, batches, 200, {"lr": 1e-3, "warmup": 100, **options})
        progress, stream = Progress(), batches.stream((0, 0))  # type: ignore[arg-type]
        values = []
        for _ in range(3):
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


SECTIONS = {
    "kernels": kernels,
    "tune": tune,
    "base": base,
    "small": small,
    "losses": losses,
    "start": start,
    "capture": capture,
}


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
