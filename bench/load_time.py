"""Time to load a model of recipe `base`: verified, trusted by time stamp (REGARD_VERIFY=quick), and unverified.

python bench/load_time.py
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

from regard import models
from regard.bundle import Bundle
from regard.text.list_tokenizer import ListTokenizer
from regard.text.tokenizer import TokenizerPair
from regard.train.recipe import load_recipe


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recipe", default="base")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["REGARD_CACHE"] = str(Path(folder) / "cache")
        verified, unverified = Path(folder) / "verified", Path(folder) / "unverified"
        save_model(options.recipe, verified)
        save_model(options.recipe, unverified)
        remove_manifest(unverified)
        variants = {"unverified": (unverified, "full"), "verified": (verified, "full"), "quick": (verified, "quick")}
        best = {name: min(load_seconds(*variant) for _ in range(options.repeats)) for name, variant in variants.items()}
        size = (verified / "model.safetensors").stat().st_size / 2**20
    print(f"recipe {options.recipe}, {size:.0f} MiB of weights, best of {options.repeats}")
    for name, seconds in best.items():
        print(f"{name:<11} {seconds:.3f} s  {seconds / best['unverified']:.2f} × unverified")


def save_model(recipe: str, folder: Path) -> None:
    """Save an untrained model."""
    options = load_recipe(recipe)
    words = ListTokenizer("word", [f"w{i}" for i in range(options.tokenizer.vocab_size - 6)])
    model = models.build(options.model, words.size)
    Bundle(model, options.model, TokenizerPair(words, words), ("src", "tgt"), options.decode).save(folder, "")


def remove_manifest(folder: Path) -> None:
    """Make a directory of the format that had no manifest."""
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "format_version": 2}))
    (folder / "manifest.json").unlink()


def load_seconds(folder: Path, verify: str) -> float:
    os.environ["REGARD_VERIFY"] = verify
    start = time.perf_counter()
    Bundle.load(folder)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
