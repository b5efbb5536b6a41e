"""Small models of every kind, which many tests go through."""

import itertools

import torch

from regard import models
from regard.data.batch import Batch
from tests.conftest import VOCAB, random_batch

Options = dict[str, object]

STACK: Options = {"d_model": 16, "n_heads": 4, "d_ff": 32, "n_layers": 2, "dropout": 0.0}
RNN: Options = {"d_model": 16, "dropout": 0.0}
ENCODERS: dict[str, Options] = {
    "feedforward": {"kind": "feedforward", **STACK},
    "rnn": {"kind": "rnn", **RNN},
    "transformer": {"kind": "transformer", **STACK},
    "ssm": {"kind": "ssm", **STACK, "d_state": 4},
}
DECODERS: dict[str, Options] = {
    **ENCODERS,
    "rnn": {"kind": "rnn", **RNN, "attention": "dot"},
    "feedforward": {"kind": "feedforward", **STACK, "window": 3},
}


def encoder_decoder(encoder: Options, decoder: Options) -> Options:
    return {"kind": "encoder-decoder", "encoder": encoder, "decoder": decoder}


def rnn_pair(encoder: Options | None = None, decoder: Options | None = None) -> Options:
    """A recurrent encoder and decoder with these options changed"""
    return encoder_decoder({**ENCODERS["rnn"], **(encoder or {})}, {**DECODERS["rnn"], **(decoder or {})})


def decoder_only(**options: object) -> Options:
    return {"kind": "decoder", "decoder": {"kind": "transformer", **STACK, **options}}


PAIRS = {f"{e}-{d}": encoder_decoder(ENCODERS[e], DECODERS[d]) for e, d in itertools.product(ENCODERS, DECODERS)}
RNN_VARIANTS: dict[str, Options] = {
    "no attention": rnn_pair(decoder={"attention": "none"}),
    "lstm, two layers": rnn_pair({"cell": "lstm", "n_layers": 2}, {"cell": "lstm", "n_layers": 2}),
    "one direction": rnn_pair({"bidirectional": False}),
    "simple cell": rnn_pair({"cell": "rnn"}, {"cell": "rnn", "n_layers": 2}),
    "hardmax": rnn_pair(decoder={"normalise": "hardmax"}),
    "monotonic window": rnn_pair(decoder={"local": "monotonic", "window": 2}),
    "predicted window": rnn_pair(decoder={"local": "predictive", "window": 2}),
    "predicted window, context as input": rnn_pair(
        decoder={"local": "predictive", "window": 1, "attention": "bilinear", "context": "input"}
    ),
    "untied": {**rnn_pair(), "tied": False},
    "cosine": rnn_pair(decoder={"attention": "cosine"}),
    "scaled dot, not normalised": rnn_pair(decoder={"attention": "scaled-dot", "normalise": "none"}),
    "bilinear, different widths": rnn_pair({"d_model": 12}, {"attention": "bilinear"}),
    "additive": rnn_pair(decoder={"attention": "additive"}),
    "location": rnn_pair(decoder={"attention": "location", "max_len": 40}),
    "location, context as input": rnn_pair(decoder={"attention": "location", "context": "input", "max_len": 40}),
    "location over all positions": rnn_pair(
        decoder={"attention": "location", "context": "input", "normalise_over": "max_len", "max_len": 40}
    ),
    "additive, context as input, lstm": rnn_pair(decoder={"attention": "additive", "context": "input", "cell": "lstm"}),
}
TRANSFORMER_VARIANTS: dict[str, Options] = {
    "linear attention": {"attention": "linear"},
    "linear attention, identity": {"attention": "linear", "feature": "identity"},
    "rotary": {"positions": "rotary"},
    "alibi": {"positions": "alibi"},
    "no positions": {"positions": "none"},
    "llama": {"positions": "rotary", "n_kv_heads": 2, "norm_kind": "rms", "activation": "swiglu", "bias": False},
    "marian": {"norm": "post", "activation": "silu", "output_bias": True},
    "long llama": {
        "positions": "rotary",
        "rope_theta": 500.0,
        "scale_embedding": False,
        "norm_eps": 1e-3,
        "rope_scaling": {"factor": 4.0, "low": 0.5, "high": 2.0, "context": 16},
    },
    "gelu-tanh, embedding norm": {"activation": "gelu-tanh", "embedding_norm": True, "positions": "learned"},
    "cosine": {"score": "cosine"},
    "additive": {"score": "additive"},
    "bilinear": {"score": "bilinear"},
    "location": {"score": "location"},
    "not normalised": {"normalise": "none"},
    "hardmax": {"normalise": "hardmax"},
    "wide heads": {"d_head": 8},
    "narrow keys, wide values": {"d_head": 2, "d_value": 6, "positions": "rotary"},
    "grouped heads of free width": {"n_heads": 6, "n_kv_heads": 2, "d_head": 4, "d_value": 3},
    "linear attention, free widths": {"attention": "linear", "d_head": 6, "d_value": 3},
}
SEQ2SEQ: dict[str, Options] = {
    **PAIRS,
    **{f"rnn: {name}": options for name, options in RNN_VARIANTS.items()},
    **{
        f"transformer: {name}": {"kind": "transformer", **STACK, **options}
        for name, options in TRANSFORMER_VARIANTS.items()
    },
    "gpt": decoder_only(),
    "gpt, learned": decoder_only(positions="learned"),
    "gpt, rotary": decoder_only(positions="rotary"),
    "gpt, free widths": decoder_only(d_head=6, d_value=10),
    "gpt, alibi, grouped": decoder_only(positions="alibi", n_kv_heads=1),
}
LANGUAGE_MODELS: dict[str, Options] = {
    **{f"language model: {name}": {"kind": "decoder", "decoder": decoder} for name, decoder in DECODERS.items()},
    "language model: linear": decoder_only(attention="linear"),
}
ALL = {**SEQ2SEQ, **LANGUAGE_MODELS}
CONSTANT_STATE = [f"language model: {name}" for name in ("rnn", "ssm", "feedforward", "linear")]
"""Language models whose state does not grow with the text"""


def build(name: str, seed: int = 0) -> models.Model:
    """Build an untrained model in float64 whose next-token probabilities are far from uniform."""
    torch.manual_seed(seed)
    model = models.build(ALL[name], vocab_size=VOCAB).double().eval()
    with torch.no_grad():
        model.output.weight.mul_(4.0)
    return model


def batch_for(name: str, lengths: list[tuple[int, int]]) -> Batch:
    """Random pairs with these numbers of source and target tokens; without the source for a language model"""
    batch = random_batch(lengths)
    return batch if name in SEQ2SEQ else Batch(batch.src[:, :0], batch.tgt_in, batch.tgt_out)
