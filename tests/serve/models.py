"""Small untrained models of several kinds, in directories that a server can open."""

from pathlib import Path

import torch

from regard import models
from regard.bundle import Bundle, TaskName
from regard.search.decode import DecodeConfig
from regard.text.tokenizer import TokenizerConfig, TokenizerPair, train_tokenizer

LETTERS = "a b c d e f g h i j k l m n o p"


def toy_models(folder: Path) -> dict[str, Path]:
    """toy: a Transformer, rnn: with scaled dot-product attention, text: a language model"""
    width = {"d_model": 16, "dropout": 0.0}
    stack = {**width, "n_heads": 4, "d_ff": 32, "n_layers": 2}
    rnn = {"kind": "rnn", **width}
    configs: dict[str, tuple[dict[str, object], TaskName]] = {
        "toy": ({"kind": "transformer", **stack}, "translate"),
        "rnn": (
            {"kind": "encoder-decoder", "encoder": rnn, "decoder": {**rnn, "attention": "scaled-dot"}},
            "translate",
        ),
        "text": ({"kind": "decoder", "decoder": {"kind": "transformer", **stack}}, "text"),
    }
    return {name: _saved(folder / name, config, task) for name, (config, task) in configs.items()}


def _saved(folder: Path, options: dict[str, object], task: TaskName) -> Path:
    torch.manual_seed(1)
    words = train_tokenizer([LETTERS], TokenizerConfig(kind="word", vocab_size=40))
    config = models.parse_config(options)
    model = models.build(config, words.size)
    with torch.no_grad():
        model.output.weight.mul_(4.0)  # probabilities that are far from uniform
    bundle = Bundle(model.eval(), config, TokenizerPair(words, words), ("src", "tgt"), DecodeConfig(), task, 64)
    bundle.save(folder, "toy")
    return folder


def toy_captioner(folder: Path) -> Path:
    sight = {
        "kind": "image",
        "size": 16,
        "patch": 8,
        "d_model": 16,
        "n_heads": 4,
        "d_ff": 32,
        "n_layers": 1,
        "dropout": 0.0,
    }
    voice = {"kind": "transformer", "d_model": 16, "n_heads": 4, "d_ff": 32, "n_layers": 2, "dropout": 0.0}
    return _saved(folder, {"kind": "encoder-decoder", "encoder": sight, "decoder": voice}, "caption")
