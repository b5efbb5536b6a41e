"""The shapes of models that every export format either holds or refuses."""

from dataclasses import replace

import numpy as np
import torch

from regard import models
from regard.bundle import Bundle
from regard.convert.export_check import forced_log_probs
from regard.convert.export_format import ExportedModel
from regard.search.decode import DecodeConfig
from regard.text.list_tokenizer import ListTokenizer
from regard.text.tokenizer import Tokenizer, TokenizerConfig, TokenizerPair, train_tokenizer
from tests.conftest import VOCAB
from tests.models.configs import DECODERS, ENCODERS, STACK, Options, decoder_only, encoder_decoder

SEPARATE = "separate vocabularies"
_LLAMA: Options = {"positions": "rotary", "n_kv_heads": 2, "norm_kind": "rms", "activation": "swiglu", "bias": False}


def _transformer(**options: object) -> Options:
    return {"kind": "transformer", **STACK, **options}


TRANSLATORS: dict[str, Options] = {
    "Transformer, pre-norm, sinusoidal (the default)": _transformer(),
    SEPARATE: _transformer(),
    "post-norm, relu": _transformer(norm="post", activation="relu"),
    "learned positions": _transformer(positions="learned", max_len=64),
    "rotary positions": _transformer(positions="rotary"),
    "no positions": _transformer(positions="none"),
    "ALiBi": _transformer(positions="alibi"),
    "positions concatenated": _transformer(join="concatenate"),
    "RMSNorm": _transformer(norm_kind="rms"),
    "SwiGLU": _transformer(activation="swiglu"),
    "no bias": _transformer(bias=False),
    "output layer not tied": _transformer(tied=False),
    "encoder and decoder of different depth": _transformer(n_decoder_layers=1),
    "encoder and decoder of different width": encoder_decoder(
        _transformer(d_model=24), _transformer(n_heads=2, n_layers=1)
    ),
    "grouped-query attention": _transformer(n_kv_heads=2),
    "multi-query attention": _transformer(n_kv_heads=1),
    "Llama-like encoder-decoder": _transformer(**_LLAMA),
    "d_head other than d_model / n_heads": _transformer(d_head=6),
    "d_value other than d_head": _transformer(d_head=2, d_value=6, positions="rotary", n_kv_heads=2),
    "tanh-GELU, output bias, norm_eps": _transformer(activation="gelu-tanh", output_bias=True, norm_eps=1e-3),
    "unscaled and normalised embeddings, SiLU": _transformer(
        scale_embedding=False, embedding_norm=True, activation="silu"
    ),
    "rope_theta": _transformer(positions="rotary", rope_theta=500.0),
    "rope_scaling": _transformer(
        positions="rotary", rope_scaling={"factor": 4.0, "low": 0.5, "high": 2.0, "context": 16}
    ),
    "score dot": _transformer(score="dot"),
    "score cosine, bilinear, additive or location": _transformer(score="additive"),
    "normaliser other than softmax": _transformer(normalise="hardmax"),
    "linear attention": _transformer(attention="linear"),
    "RNN": encoder_decoder(ENCODERS["rnn"], DECODERS["rnn"]),
    "state space": encoder_decoder(ENCODERS["ssm"], DECODERS["ssm"]),
    "Transformer encoder, RNN decoder": encoder_decoder(ENCODERS["transformer"], DECODERS["rnn"]),
    "decoder-only translator": decoder_only(),
    "decoder-only translator, ALiBi": decoder_only(positions="alibi"),
}
LANGUAGE_MODELS: dict[str, Options] = {
    "language model, sinusoidal": decoder_only(),
    "language model, learned positions": decoder_only(positions="learned", max_len=64),
    "language model, Llama-like": decoder_only(**_LLAMA),
    "language model, ALiBi": decoder_only(positions="alibi"),
    "language model, RNN": {"kind": "decoder", "decoder": DECODERS["rnn"]},
    "language model, feed-forward window": {"kind": "decoder", "decoder": DECODERS["feedforward"]},
}
SHAPES = {**TRANSLATORS, **LANGUAGE_MODELS}


def bundle_of(shape: str, tokenizer: Tokenizer | None = None, **changed: object) -> Bundle:
    """Make an untrained model of that shape whose next-token probabilities are far from uniform.

    `changed` are options of the model that differ from those of the table.
    """
    target = tokenizer or _tokenizer(VOCAB)
    source = _tokenizer(VOCAB + 5) if shape == SEPARATE else target
    config = models.parse_config({**SHAPES[shape], **changed})
    torch.manual_seed(0)
    model = models.build(config, target.size, source.size if shape == SEPARATE else None).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # biases and norms too
            parameter.add_(0.05 * torch.randn_like(parameter))
        model.output.weight.mul_(4.0)
    bundle = Bundle(model, config, TokenizerPair(source, target), ("en", "fr"), DecodeConfig(max_source=50))
    return replace(bundle, task="text") if shape in LANGUAGE_MODELS else bundle


def largest_forced_difference(bundle: Bundle, exported: ExportedModel) -> float:
    """Largest difference of a log-probability for random targets, of which models are less certain than of their own"""
    rng = np.random.default_rng(0)
    largest = 0.0
    for n_source, n_target in ((4, 9), (11, 5)):
        source = [] if bundle.task == "text" else rng.integers(6, bundle.tokenizers.src.size, n_source).tolist()
        target = rng.integers(6, bundle.tokenizers.tgt.size, n_target).tolist()
        ours = forced_log_probs(bundle, source, target, exported.suppresses_specials)
        theirs = exported.log_probs(source, target)
        largest = max(largest, *(abs(one - other) for one, other in zip(ours, theirs, strict=True)))
    return largest


def sentencepiece() -> Tokenizer:
    """Train a small SentencePiece model."""
    texts = ["the green witch arrived", "a red cat sleeps", "the cat sees a witch", "it's a red witch"]
    return train_tokenizer(texts, TokenizerConfig(vocab_size=300))


def _tokenizer(size: int) -> ListTokenizer:
    return ListTokenizer("char", [chr(0x100 + i) for i in range(size - 6)])
