"""Decoding time of a student with one decoder layer against its teacher with six, on this machine.

    python bench/student_speed.py

Both have random weights, six encoder layers and the same width, and translate the same sentences of 8 to 24 words into
18 tokens each, by turns. Prints the best of three rounds, in milliseconds per call, and the ratio.
"""

import argparse
import tempfile
import time
from pathlib import Path

import torch

from regard import models
from regard.bundle import NO_LANGUAGES, Bundle
from regard.pipelines.load import load_translator
from regard.pipelines.translator import Translator
from regard.search.decode import DecodeConfig
from regard.text.tokenizer import TokenizerConfig, TokenizerPair, train_tokenizer
from serve_load import WORDS, sentences

ROUNDS = 3
N_TOKENS = 18
SIZES = {"auto, 29,000 pairs": (256, 512), "base": (512, 2048)}
"""Width and d_ff"""


def save_model(folder: Path, width: int, d_ff: int, n_decoder_layers: int) -> Path:
    torch.manual_seed(1)
    options = {"d_model": width, "d_ff": d_ff, "n_heads": 4, "n_layers": 6, "n_decoder_layers": n_decoder_layers}
    config = models.parse_config({"kind": "transformer", "positions": "rotary", **options})
    words = train_tokenizer([" ".join(WORDS)], TokenizerConfig(kind="word", vocab_size=len(WORDS) + 6))
    decode = DecodeConfig(min_len=N_TOKENS, max_len=N_TOKENS)
    model = models.build(config, words.size).eval()
    Bundle(model, config, TokenizerPair(words, words), NO_LANGUAGES, decode).save(folder, "random weights")
    return folder


def milliseconds(translator: Translator, groups: list[list[str]], beam: int) -> float:
    start = time.perf_counter()
    for texts in groups:
        translator.translate(texts, beam=beam)
    return 1000 * (time.perf_counter() - start) / len(groups)


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    texts = sentences(64)
    for name, (width, d_ff) in SIZES.items():
        with tempfile.TemporaryDirectory() as folder:
            pair = [load_translator(save_model(Path(folder) / str(n), width, d_ff, n)) for n in (6, 1)]
        for at_once, beam in ((1, 1), (1, 5), (64, 1), (64, 5)):
            groups = [texts[i : i + at_once] for i in range(0, min(len(texts), 8 * at_once), at_once)]
            rounds = [[milliseconds(each, groups, beam) for each in pair] for _ in range(1 + ROUNDS)][1:]
            teacher, student = map(min, zip(*rounds, strict=True))
            print(
                f"{name}: {at_once:2} at once, beam {beam}: 6+6 layers {teacher:7.1f} ms, "
                f"6+1 layers {student:7.1f} ms, {teacher / student:.2f} ×",
                flush=True,
            )


if __name__ == "__main__":
    main()
