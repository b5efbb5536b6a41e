"""Small untrained translators of letters, whose translations differ from line to line, and text for them."""

from pathlib import Path
from random import Random

import pytest
import torch

from regard import models
from regard.bundle import Bundle
from regard.search.decode import DecodeConfig
from regard.text.tokenizer import TokenizerConfig, TokenizerPair, train_tokenizer

LETTERS = "abcdefgh"


def untrained_translator(
    folder: Path, seed: int = 0, letters: str = LETTERS, src: str = "fr", tgt: str = "en", beam: int = 2
) -> Path:
    """Save a Transformer with random weights, whose next-token probabilities are far from uniform."""
    tokenizer = train_tokenizer([letters, " ".join(letters)], TokenizerConfig(kind="char", vocab_size=40))
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_layers": 1, "tied": False}  # tied ones repeat themselves
    config = models.parse_config({"kind": "transformer", **sizes})
    torch.manual_seed(seed)
    model = models.build(config, tokenizer.size).eval()
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(2.0)
    pair, decode = TokenizerPair(tokenizer, tokenizer), DecodeConfig(beam=beam, max_len=12)
    Bundle(model, config, pair, (src, tgt), decode).save(folder, "an untrained model")
    return folder


@pytest.fixture(scope="session")
def reverse_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model from fr to en. Tests must not change it."""
    return untrained_translator(tmp_path_factory.mktemp("reverse") / "model")


def random_lines(n: int, seed: int = 1) -> list[str]:
    random = Random(seed)
    return [" ".join(random.choices(LETTERS, k=random.randint(1, 9))) for _ in range(n)]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """60 lines of letters, and an empty one"""
    path = tmp_path / "text.fr"
    path.write_text("\n".join([*random_lines(30), "", *random_lines(30, seed=2)]) + "\n")
    return path


SETTINGS = (
    *("model.d_model=16", "model.d_ff=16", "model.n_heads=2", "model.n_layers=1", "batch.tokens=256"),
    *("train.steps=6", "train.warmup=2", "train.log_every=6", "train.patience=0", "train.average=none"),
    *("valid.every=3", "valid.sentences=4", "valid.samples=0", "decode.max_len=12"),
)
"""Of models that are trained in a fraction of a second"""


def write_lines(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.fixture
def pairs(tmp_path: Path) -> tuple[Path, Path]:
    """60 pairs en-fr: letters, and the same backwards"""
    lines = random_lines(60, seed=5)
    return write_lines(tmp_path / "a.en", lines), write_lines(tmp_path / "a.fr", [line[::-1] for line in lines])
