"""Frames per second while the page zooms from the whole model to one weight and back, in headless Chromium.

    python bench/page_zoom.py

The model has 6 + 6 layers of 8 heads (48 heads per kind of attention) with random weights, and reads 128 tokens.
Prints the frames per second and the longest frame of each zoom. Needs chromium, node and `npm ci` in web/. Chromium
draws on the CPU here, so a machine with a GPU has more time left per frame.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from regard import models
from regard.bundle import Bundle
from regard.search.decode import DecodeConfig
from regard.text.tokenizer import TokenizerConfig, TokenizerPair, train_tokenizer
from serve_load import PORT, wait_for

WORDS = "a b c d e f g h i j k l m n o p"
N_TOKENS = 128  # with the end of the sentence
WEB = Path(__file__).parents[1] / "web"


def save_model(folder: Path) -> None:
    torch.manual_seed(1)
    words = train_tokenizer([WORDS], TokenizerConfig(kind="word", vocab_size=40))
    config = models.parse_config({"kind": "transformer", "d_model": 256, "n_heads": 8, "d_ff": 512, "n_layers": 6})
    model = models.build(config, words.size).eval()
    decode = DecodeConfig(beam=1, max_len=N_TOKENS)
    Bundle(model, config, TokenizerPair(words, words), ("src", "tgt"), decode).save(folder, "random weights")


def main() -> None:
    text = " ".join(WORDS.split()[7 * i % 16] for i in range(N_TOKENS - 1))
    with tempfile.TemporaryDirectory() as folder:
        save_model(Path(folder) / "model")
        command = [sys.executable, "-m", "regard", "serve", f"{folder}/model", "--port", str(PORT)]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            wait_for(f"http://127.0.0.1:{PORT}")
            subprocess.run(["node", "test/zoom.mjs", f"http://127.0.0.1:{PORT}", text], cwd=WEB, check=True)
        finally:
            server.terminate()
            server.wait(20)


if __name__ == "__main__":
    main()
