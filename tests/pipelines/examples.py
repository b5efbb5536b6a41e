"""Small untrained pipelines of every kind, and an input for each."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from regard import models
from regard.bundle import Bundle
from regard.pipelines.base import Pipeline
from regard.pipelines.captioner import Captioner
from regard.pipelines.classifier import Classifier
from regard.pipelines.encoded_input import Input
from regard.pipelines.load import load
from regard.pipelines.translator import Translator
from regard.search.decode import DecodeConfig
from regard.search.ensemble import Ensemble
from regard.text.direction import Directions
from regard.text.list_tokenizer import ListTokenizer
from regard.text.seen_words import SeenWords
from regard.text.tokenizer import TokenizerConfig, TokenizerPair, train_tokenizer

BUNDLES = Path(__file__).parents[1] / "bundles" / "format-1"
WORDS = ListTokenizer("word", ["a", "cat", "the", "witch", "arrived", "green", "red", "sees", "sleeps"])
CPU = torch.device("cpu")
TEXT = "the red cat sees a witch"
IMAGE = np.arange(8 * 8 * 3, dtype=np.uint8).reshape(8, 8, 3)
MAX_LEN = 12

STACK = {"kind": "transformer", "d_model": 8, "n_heads": 2, "d_ff": 8, "n_layers": 2, "dropout": 0.0}
LEARNED = {**STACK, "positions": "learned", "max_len": MAX_LEN}
LOCATION = {**STACK, "score": "location", "max_len": MAX_LEN}


def untrained(config: dict[str, object]) -> models.Model:
    torch.manual_seed(1)
    model = models.build(config, WORDS.size).eval()
    with torch.no_grad():
        model.output.weight.mul_(4.0)  # probabilities that are far from uniform
    return model


def translator(*configs: dict[str, object]) -> Translator:
    """A translator, or with several configs an ensemble"""
    members = [untrained(config) for config in configs]
    model = members[0] if len(members) == 1 else Ensemble(members)
    return Translator(model, TokenizerPair(WORDS, WORDS), DecodeConfig(beam=2, max_len=6), CPU)


def multilingual_bundle(tokenizer: str = "word") -> Bundle:
    """An untrained model that translates English to French and German, and Dutch to French"""
    directions = Directions.of([("en", "fr"), ("en", "de"), ("nl", "fr")])
    symbols = tuple(dict.fromkeys(direction.tag for direction in directions))
    options = TokenizerConfig.parse({"kind": tokenizer, "vocab_size": 400, "symbols": symbols})
    vocabulary = train_tokenizer([f"{TEXT} . ! the green witch arrived. did they sleep ?"] * 5, options)
    config = models.parse_config(STACK)
    torch.manual_seed(1)
    model = models.build(config, vocabulary.size).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn(parameter.shape))  # so that the tag changes the output
    return Bundle(
        model,
        config,
        TokenizerPair(vocabulary, vocabulary),
        directions.first.languages,
        DecodeConfig(beam=2, max_len=6),
        words=SeenWords.count([TEXT, "the green witch arrived", "did they sleep"]),
        directions=directions.several,
    )


def encoder_decoder(encoder: dict[str, object], decoder: dict[str, object]) -> dict[str, object]:
    return {"kind": "encoder-decoder", "encoder": encoder, "decoder": decoder}


def classifier(encoder: dict[str, object], **options: object) -> Classifier:
    labels = ListTokenizer("label", ["bad", "good"])
    torch.manual_seed(1)
    config = {"kind": "encoder", "encoder": encoder, "head": "label", **options}
    model = models.build(config, labels.size, WORDS.size).eval()
    return Classifier(model, TokenizerPair(WORDS, labels), CPU)


def pooling_classifier() -> Classifier:
    pipeline = classifier(STACK, pooling="attention")
    with torch.no_grad():
        pipeline.model.pooling.key.normal_()  # it starts at zero
    return pipeline


RNN_LOCATION = encoder_decoder(
    {"kind": "rnn", "d_model": 8}, {"kind": "rnn", "d_model": 8, "attention": "location", "max_len": MAX_LEN}
)
PIPELINES: dict[str, Callable[[], Pipeline]] = {
    **{
        folder.name: lambda folder=folder: load(folder, device="cpu")  # type: ignore[misc]
        for folder in sorted(BUNDLES.iterdir())
        if folder.is_dir()
    },
    "ensemble": lambda: load(BUNDLES / "transformer", BUNDLES / "rnn-additive", device="cpu"),
    "concatenation": lambda: translator({"kind": "decoder", "decoder": STACK}),
    "linear attention": lambda: translator({**STACK, "attention": "linear"}),
    "learned positions": lambda: translator(LEARNED),
    "learned positions, concatenation": lambda: translator({"kind": "decoder", "decoder": LEARNED}),
    "learned positions, classifier": lambda: classifier(LEARNED),
    "attention pooling, classifier": pooling_classifier,
    "learned positions in the encoder only": lambda: translator(encoder_decoder(LEARNED, STACK)),
    "learned positions in the decoder only": lambda: translator(encoder_decoder(STACK, LEARNED)),
    "location": lambda: translator(LOCATION),
    "location, rnn": lambda: translator(RNN_LOCATION),
    "local attention, rnn": lambda: translator(
        encoder_decoder({"kind": "rnn", "d_model": 8}, {"kind": "rnn", "d_model": 8, "local": "predictive"})
    ),
    "free head widths": lambda: translator({**STACK, "d_head": 6, "d_value": 2}),
    "ensemble with a limit": lambda: translator(STACK, RNN_LOCATION),
}


def example_input(pipeline: Pipeline) -> Input:
    return IMAGE if isinstance(pipeline, Captioner) else TEXT
