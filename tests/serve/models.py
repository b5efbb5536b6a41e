"""Small untrained models of several kinds, in directories that a server can open."""

from pathlib import Path

import torch

from regard import models
from regard.bundle import Bundle, TaskName
from regard.search.decode import DecodeConfig
from regard.text.tokenizer import TokenizerConfig, TokenizerPair, train_tokenizer

LETTERS = "a b c d e f g h i j k l m n o p"
WIDTH = {"d_model": 16, "dropout": 0.0}
STACK = {"kind": "transformer", **WIDTH, "n_heads": 4, "d_ff": 32, "n_layers": 2}


def toy_models(folder: Path) -> dict[str, Path]:
    """toy: a Transformer, rnn: with scaled dot-product attention, text: a language model"""
    rnn = {"kind": "rnn", **WIDTH}
    attending = {**rnn, "attention": "scaled-dot"}
    return {
        "toy": save_toy(folder / "toy", STACK),
        "rnn": save_toy(folder / "rnn", {"kind": "encoder-decoder", "encoder": rnn, "decoder": attending}),
        "text": save_toy(folder / "text", {"kind": "decoder", "decoder": STACK}, "text"),
    }


def toy_captioner(folder: Path) -> Path:
    encoder = {**STACK, "kind": "image", "size": 16, "patch": 8, "n_layers": 1}
    return save_toy(folder, {"kind": "encoder-decoder", "encoder": encoder, "decoder": STACK}, "caption")


def toy_state_space(folder: Path) -> Path:
    """A translator whose encoder is a state space, from which no token can be hidden"""
    encoder = {"kind": "ssm", **WIDTH, "d_ff": 32, "n_layers": 2}
    return save_toy(folder, {"kind": "encoder-decoder", "encoder": encoder, "decoder": STACK})


def toy_linear(folder: Path) -> Path:
    """A translator whose decoder has linear self-attention"""
    decoder = {**STACK, "attention": "linear"}
    return save_toy(folder, {"kind": "encoder-decoder", "encoder": STACK, "decoder": decoder})


def toy_decoder_only(folder: Path) -> Path:
    """A translator that reads the source as the start of its text"""
    return save_toy(folder, {"kind": "decoder", "decoder": STACK})


def save_toy(
    folder: Path, options: dict[str, object], task: TaskName = "translate", tokenizer: str = "word", seed: int = 1
) -> Path:
    torch.manual_seed(seed)
    vocabulary = train_tokenizer([LETTERS], TokenizerConfig.parse({"kind": tokenizer, "vocab_size": 40}))
    config = models.parse_config(options)
    model = models.build(config, vocabulary.size)
    with torch.no_grad():
        model.output.weight.mul_(4.0)  # probabilities that are far from uniform
    tokenizers = TokenizerPair(vocabulary, vocabulary)
    bundle = Bundle(model.eval(), config, tokenizers, ("src", "tgt"), DecodeConfig(), task, 64)
    bundle.save(folder, "toy")
    return folder


def toy_classifier(folder: Path, task: TaskName = "classify") -> Path:
    """A classifier or, with the task `masked`, a model that fills in tokens"""
    head = "label" if task == "classify" else "tokens"
    return save_toy(folder, {"kind": "encoder", "encoder": STACK, "head": head}, task)
