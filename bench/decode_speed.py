"""Decoding speed compared with Hugging Face `generate` and CTranslate2, on the same machine and in the same run.

    python bench/decode_speed.py [--width 512 --layers 6 --vocab 8000 --sentences 1,32 --threads 2]

Random weights, sources of 24 tokens, exactly 20 target tokens (on a GPU 32, in bf16). All systems take turns, and each
figure is the median of several rounds. Compare the ratios: absolute times vary between runs. CTranslate2 is left out
if it is not installed, and on a GPU.
"""

import regard  # noqa: F401  before torch, because it limits how long torch's threads spin

# isort: split

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import torch

from marian import marian_model
from regard import models
from regard.data.batch import Batch, collate_sources
from regard.models.inference import inference_copy
from regard.search.decode import DecodeConfig, decode
from regard.text.vocab import EOS, PAD, SPECIALS

Decode = Callable[[Batch, int], object]


def seconds(run: Callable[[], object], device: torch.device) -> float:
    start = time.perf_counter()
    run()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def hugging_face(args: argparse.Namespace, device: torch.device) -> Decode:
    """Return a function (batch, beam) that decodes with a MarianMT model."""
    model = marian_model(args.vocab, args.width, args.layers, device).eval()
    model = model.bfloat16() if device.type == "cuda" else model

    def run(batch: Batch, beam: int) -> object:
        mask = (batch.src != PAD).long()
        lengths = {"min_new_tokens": args.tokens, "max_new_tokens": args.tokens}
        return model.generate(batch.src, attention_mask=mask, num_beams=beam, do_sample=False, **lengths)

    return run


def regard_search(args: argparse.Namespace, model: Any) -> Decode:
    """Return a function (batch, beam) that decodes with our model of the same size."""

    def run(batch: Batch, beam: int) -> object:
        config = DecodeConfig(beam=beam, min_len=args.tokens, max_len=args.tokens)
        return decode(inference_copy(model), batch, config)

    return run


def ctranslate2(args: argparse.Namespace, model: Any, config: models.ModelConfig, threads: int) -> Decode:
    """Return a function (batch, beam) that decodes with CTranslate2 and the weights of our model."""
    from ctranslate2_model import ctranslate2_translator

    translator = ctranslate2_translator(model, config, args.vocab, threads)

    def run(batch: Batch, beam: int) -> object:
        sources = [[f"t{i}" for i in row if i > EOS] for row in batch.src.tolist()]
        lengths = {"min_decoding_length": args.tokens, "max_decoding_length": args.tokens}
        return translator.translate_batch(sources, beam_size=beam, length_penalty=0.6, **lengths)

    return run


def system_names(args: argparse.Namespace) -> list[str]:
    """CTranslate2 is also measured with one thread, which is often faster for a single sentence."""
    names = ["Hugging Face", "regard"]
    if args.device.type == "cpu" and importlib.util.find_spec("ctranslate2"):
        names += ["CTranslate2", "CTranslate2, 1 thread"][: args.threads]
    return names


def make_system(name: str, args: argparse.Namespace) -> Decode:
    torch.set_num_threads(args.threads)
    if name == "Hugging Face":
        return hugging_face(args, args.device)
    options = {"d_model": args.width, "d_ff": 4 * args.width, "n_layers": args.layers, "n_heads": args.width // 64}
    torch.manual_seed(1)
    config = models.parse_config(options)
    model = models.build(config, vocab_size=args.vocab).to(args.device).eval()
    if name == "regard":
        return regard_search(args, model)
    return ctranslate2(args, model, config, args.threads if name == "CTranslate2" else 1)


_made: dict[str, Decode] = {}
"""The system of a process"""


def measure(name: str, args: argparse.Namespace, n: int, beam: int) -> float:
    """Return the seconds that a system takes for n sentences.

    It decodes twice, and the second time counts: the first brings its weights back into the cache.
    """
    if name not in _made:
        _made[name] = make_system(name, args)
    generator = torch.Generator().manual_seed(1)
    sources = torch.randint(len(SPECIALS), args.vocab, (n, 23), generator=generator).tolist()
    batch = collate_sources(sources).to(args.device)
    _made[name](batch, beam)
    return seconds(lambda: _made[name](batch, beam), args.device)


def medians(args: argparse.Namespace, n: int, beam: int) -> dict[str, float]:
    """Return the seconds that each system takes for n sentences: the median of several rounds, in turns.

    Each system has a process of its own: in one, the threads of some make those of others slower.
    """
    times: dict[str, list[float]] = {name: [] for name in args.systems}
    for _ in range(args.rounds + 2):  # the first two warm up
        for name, process in args.systems.items():
            times[name].append(process.submit(measure, name, args.options, n, beam).result())
    return {name: statistics.median(each[2:]) for name, each in times.items()}


def arguments(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Parse the command line; what is not given depends on the device."""
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--vocab", type=int)
    parser.add_argument("--sentences", default="")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    on_gpu = torch.cuda.is_available()
    args.device = torch.device("cuda" if on_gpu else "cpu")
    args.vocab, args.tokens = args.vocab or (37_000 if on_gpu else 8_000), 32 if on_gpu else 20
    args.counts = [int(n) for n in (args.sentences or ("1,64,512" if on_gpu else "1,32")).split(",")]
    args.options = argparse.Namespace(**vars(args))
    spawn = get_context("spawn")
    args.systems = {name: ProcessPoolExecutor(1, mp_context=spawn) for name in system_names(args)}
    return args


def main() -> None:
    args = arguments(argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None))
    on_gpu = args.device.type == "cuda"
    size = f"{args.layers}+{args.layers} layers, {args.width} wide, vocabulary {args.vocab:,}"
    print(f"decoding, {size}, {args.tokens} tokens, {'GPU' if on_gpu else f'{args.threads} threads'}")
    print(f"{'sentences':>10}{'beam':>6}{''.join(f'{name:>25}' for name in args.systems)}")
    for n in args.counts:
        for beam in (1, 5):
            times = medians(args, n, beam)
            cells = [_cell(name, times, args.tokens, on_gpu) for name in times]
            print(f"{n:10}{beam:6}{''.join(cells)}", flush=True)


def _cell(name: str, times: dict[str, float], n_tokens: int, on_gpu: bool) -> str:
    """Milliseconds in total, on a GPU per token, and how many times as fast as Hugging Face"""
    time_text = f"{times[name] / n_tokens * 1000:.3f} ms/token" if on_gpu else f"{times[name] * 1000:.0f} ms"
    ratio = "" if name == "Hugging Face" else f" {times['Hugging Face'] / times[name]:.2f} ×"
    return f"{time_text + ratio:>25}"


if __name__ == "__main__":
    main()
