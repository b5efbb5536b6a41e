"""Every speed figure of a CPU in one table, regard against its peers in the same run.

    python bench/cpu.py [--threads 2]      # about five minutes on two cores

Decoding: Transformer base, vocabulary 8,000, float32, sources of 24 tokens, 20 forced tokens, against Hugging Face
generate and, if it is installed, CTranslate2 with the same weights. Training: two small sizes, against MarianMT in a
plain loop. Compare the ratios; times depend on the machine and on what else it does.
"""

import argparse
import platform
import subprocess
import sys
from pathlib import Path

import torch

import decode_speed

TRAINING = (("2+2 × 128", 2, 128), ("3+3 × 256", 3, 256))


def main() -> None:
    args = decode_speed.arguments(argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None))
    print(f"{processor()}, {args.threads} threads, torch {torch.__version__}", flush=True)
    names = list(args.systems)
    print(
        f"{'sentences':>10}{'beam':>6}"
        + "".join(f"{name:>24}" for name in names)
        + "   and how many times as fast is regard"
    )
    for n in args.counts:
        for beam in (1, 5):
            times = decode_speed.medians(args, n, beam)
            cells = "".join(f"{times[name] * 1000:21.0f} ms" for name in names)
            ratios = [f"{times[name] / times['regard']:.2f} × {name}" for name in names if name != "regard"]
            print(f"{n:10}{beam:6}{cells}   {', '.join(ratios)}", flush=True)
    script = Path(__file__).with_name("train_speed.py")
    for name, layers, width in TRAINING:
        print(f"training, {name}", flush=True)
        size = ["--layers", str(layers), "--width", str(width), "--tokens", "2000", "--vocab", "4000", "--steps", "10"]
        subprocess.run([sys.executable, script, *size], check=True)


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
