"""Decoding speed compared with Hugging Face `generate`, on the same machine and in the same run.

    python bench/decode_speed.py [--width 512 --layers 6 --vocab 8000 --sentences 32]

Random weights, sources of 25 tokens, exactly 20 target tokens. Compare the ratios: absolute times vary between runs.
"""

import argparse
import time
from collections.abc import Callable

import torch

from marian import marian_model
from regard import models
from regard.data.batch import Batch, collate_sources
from regard.search.decode import DecodeConfig, decode
from regard.text.vocab import PAD, SPECIALS

NEW_TOKENS = 20


def seconds(run: Callable[[], object], device: torch.device, rounds: int = 3) -> float:
    """Return the shortest time of several rounds, after a warm-up."""
    times = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times[1:])


def hugging_face(args: argparse.Namespace, device: torch.device) -> Callable[[Batch, int], object]:
    """Return a function (batch, beam) that decodes with a MarianMT model."""
    model = marian_model(args.vocab, args.width, args.layers, device).eval()

    def run(batch: Batch, beam: int) -> object:
        mask = (batch.src != PAD).long()
        lengths = {"min_new_tokens": NEW_TOKENS, "max_new_tokens": NEW_TOKENS}
        return model.generate(batch.src, attention_mask=mask, num_beams=beam, do_sample=False, **lengths)

    return run


def regard(args: argparse.Namespace, device: torch.device) -> Callable[[Batch, int], object]:
    """Return a function (batch, beam) that decodes with our model of the same size."""
    options = {"d_model": args.width, "d_ff": 4 * args.width, "n_layers": args.layers, "n_heads": args.width // 64}
    model = models.build(options, vocab_size=args.vocab).to(device).eval()

    def run(batch: Batch, beam: int) -> object:
        return decode(model, batch, DecodeConfig(beam=beam, min_len=NEW_TOKENS, max_len=NEW_TOKENS))

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--vocab", type=int, default=8000)
    parser.add_argument("--sentences", type=int, default=32)
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    generator = torch.Generator().manual_seed(1)
    sources = torch.randint(len(SPECIALS), args.vocab, (args.sentences, 24), generator=generator).tolist()
    decode_theirs, decode_ours = hugging_face(args, device), regard(args, device)
    print(f"{'sentences':>10}{'beam':>6}{'Hugging Face':>16}{'regard':>12}{'ratio':>9}")
    for n in (1, args.sentences):
        batch = collate_sources(sources[:n]).to(device)
        for beam in (1, 5):
            theirs = seconds(lambda b=batch, k=beam: decode_theirs(b, k), device)  # type: ignore[misc]
            ours = seconds(lambda b=batch, k=beam: decode_ours(b, k), device)  # type: ignore[misc]
            print(f"{n:10}{beam:6}{theirs:14.3f} s{ours:10.3f} s{theirs / ours:8.2f} ×")


if __name__ == "__main__":
    main()
