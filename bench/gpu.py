"""Every speed figure of a GPU in one table, regard against its peers in the same run.

    python bench/gpu.py [--out FOLDER]      # about four minutes; FOLDER gets speed.json and throughput.png

Decoding: Transformer base, vocabulary 37,000, bf16, sources of 24 tokens, 32 forced tokens, search included, against
Hugging Face generate. Training: the same model on 25,000 tokens a side, against MarianMT in a plain loop.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import torch

import decode_speed

COUNTS = (1, 2, 8, 32, 64, 128, 256, 512, 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=Path())
    args = decode_speed.arguments(parser)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}", flush=True)
    rows = []
    print(f"{'sentences':>10}{'beam':>6}{'Hugging Face':>16}{'regard':>16}{'ratio':>9}   ms per token")
    for beam in (1, 5):
        for n in COUNTS:
            times = decode_speed.medians(args, n, beam)
            theirs, ours = (times[name] / args.tokens * 1000 for name in ("Hugging Face", "regard"))
            rows.append({"sentences": n, "beam": beam, "hugging_face_ms": theirs, "regard_ms": ours})
            print(f"{n:10}{beam:6}{theirs:13.3f} ms{ours:13.3f} ms{theirs / ours:7.1f} ×", flush=True)
    (args.out / "speed.json").write_text(json.dumps(rows, indent=1))
    draw(rows, args.out / "throughput.png")
    subprocess.run([sys.executable, Path(__file__).with_name("train_speed.py")], check=True)


def draw(rows: list[dict[str, float]], path: Path) -> None:
    """Draw tokens per second against the number of sentences at once."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
    colours = {"regard": "#0072b2", "hugging_face": "#d55e00"}
    for name, colour in colours.items():
        for beam, style, marker in ((1, "-", "o"), (5, "--", "s")):
            points = [row for row in rows if row["beam"] == beam]
            speeds = [row["sentences"] * 1000 / row[f"{name}_ms"] for row in points]
            label = f"{name.replace('_', ' ').replace('hugging face', 'Hugging Face')}, beam {beam}"
            axes.plot([row["sentences"] for row in points], speeds, style, marker=marker, color=colour, label=label)
    axes.set(xscale="log", yscale="log", xlabel="sentences at once", ylabel="target tokens per second")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
