"""Untrained models of every kind that topics can be explained on."""

from pathlib import Path

import pytest
import torch

from regard import models
from regard.bundle import Bundle, TaskName
from regard.data.builtin.grammar_corpus import generate_corpus
from regard.search.decode import DecodeConfig
from regard.text.list_tokenizer import ListTokenizer
from regard.text.tokenizer import SentencePieceTokenizer, TokenizerConfig, TokenizerPair
from regard.train.recipe import load_recipe

STACK = {"kind": "transformer", "d_model": 16, "n_heads": 4, "d_ff": 32, "n_layers": 2}
RNN = {"kind": "rnn", "d_model": 16}


def rnn_translator(**decoder: object) -> tuple[TaskName, dict[str, object]]:
    return "translate", {"kind": "encoder-decoder", "encoder": RNN, "decoder": {**RNN, **decoder}}


MODELS: dict[str, tuple[TaskName, dict[str, object]]] = {
    "transformer": ("translate", STACK),
    "rotary": ("translate", {**STACK, "positions": "rotary", "n_kv_heads": 2}),
    "alibi": ("translate", {**STACK, "positions": "alibi"}),
    "linear": ("translate", {**STACK, "attention": "linear"}),
    "concatenation": ("translate", {"kind": "decoder", "decoder": STACK}),
    "free widths": (
        "translate",
        {**STACK, "d_head": 6, "d_value": 3, "norm": "post", "norm_kind": "rms", "activation": "relu"},
    ),
    "hardmax": (
        "translate",
        {**STACK, "score": "bilinear", "normalise": "hardmax", "bias": False, "activation": "swiglu"},
    ),
    "rnn": rnn_translator(attention="dot"),
    "no attention": rnn_translator(attention="none", cell="rnn", n_layers=2),
    "location": rnn_translator(attention="location", context="input"),
    "location, L_max": rnn_translator(attention="location", context="input", normalise_over="max_len"),
    "additive": rnn_translator(attention="additive", context="input", cell="lstm"),
    "bilinear": rnn_translator(attention="bilinear", normalise="hardmax"),
    "local": rnn_translator(attention="cosine", local="predictive", window=2),
    "gpt": ("text", {"kind": "decoder", "decoder": {**STACK, "positions": "learned", "max_len": 64}}),
    "rnn-lm": ("text", {"kind": "decoder", "decoder": RNN}),
    "pooling": ("classify", {"kind": "encoder", "encoder": STACK, "head": "label", "pooling": "attention"}),
    "classifier": ("classify", {"kind": "encoder", "encoder": STACK, "head": "label"}),
}


@pytest.fixture(scope="session")
def model_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Model directories by name; all share a small BPE vocabulary."""
    pairs = generate_corpus(100, 0, 1)["train"]
    texts = [side for pair in pairs for side in (pair.src, pair.tgt)]
    tokenizer = SentencePieceTokenizer.train(texts, TokenizerConfig(vocab_size=120, byte_fallback=False))
    folders = {}
    for name, (task, options) in MODELS.items():
        torch.manual_seed(1)
        labels = ListTokenizer("label", ["good", "bad"])
        tokenizers = TokenizerPair(tokenizer, labels if task == "classify" else tokenizer)
        config = models.parse_config(options)
        model = models.build(config, tokenizers.tgt.size, None if tokenizers.joint else tokenizer.size)
        folders[name] = tmp_path_factory.mktemp("models") / name
        decoding = DecodeConfig(beam=3, min_len=2, max_len=6)
        Bundle(model, config, tokenizers, ("en", "fr"), decoding, task, context=64).save(folders[name], card="")
        (folders[name] / "config.yaml").write_text(load_recipe("tiny").to_yaml())
    return folders
