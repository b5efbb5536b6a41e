"""Which class of transformers can hold a model, if any."""

from collections.abc import Container, Iterator
from typing import Literal

from regard.bundle import Bundle
from regard.convert.ctranslate2.problem import ctranslate2_problem
from regard.convert.hf.marian_tokenizer import is_marian
from regard.convert.hf.suppressed import suppressed_ids
from regard.convert.onnx.problem import onnx_problem
from regard.models.decoder_only import DecoderOnly, DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig, TransformerConfig
from regard.models.encoder_only import EncoderOnlyConfig
from regard.models.stack import StackConfig

HfClass = Literal[
    "PegasusForConditionalGeneration", "MarianMTModel", "GPT2LMHeadModel", "Starcoder2ForCausalLM", "LlamaForCausalLM"
]

Allowed = dict[str, Container[object]]


class _AnyValue:
    """A container of everything."""

    def __contains__(self, value: object) -> bool:
        return True


ACTIVATIONS = {"gelu": "gelu", "relu": "relu", "gelu-tanh": "gelu_new", "silu": "silu"}
"""Our names of activations → those of transformers; SwiGLU exists in Llama only"""

_ANY = {"kind", "d_model", "n_heads", "n_kv_heads", "d_head", "d_value", "d_ff", "n_layers", "max_len"}
_ANY |= {"dropout", "attention_dropout", "bias", "scale_embedding", "feature"}
"""Options of a stack that every class can express, or whose combinations are checked"""

_PLAIN: Allowed = {
    "norm": ("pre",),
    "norm_kind": ("layer",),
    "norm_eps": (None, 1e-5),
    "activation": tuple(ACTIVATIONS),
    "positions": ("sinusoidal", "learned", "none"),
}
_ROTARY: Allowed = {
    "norm_eps": _AnyValue(),
    "positions": ("rotary",),
    "rope_theta": _AnyValue(),
    "rope_scaling": _AnyValue(),
}
_ALLOWED: dict[HfClass, Allowed] = {
    "PegasusForConditionalGeneration": _PLAIN,
    # It computes sinusoids again when it is loaded, so it cannot keep other positions.
    "MarianMTModel": {**_PLAIN, "norm": ("post",), "positions": ("sinusoidal",)},
    "GPT2LMHeadModel": {**_PLAIN, "norm_eps": _AnyValue()},
    "Starcoder2ForCausalLM": {**_PLAIN, **_ROTARY},
    "LlamaForCausalLM": {"norm_kind": ("rms",), "activation": ("swiglu",), **_ROTARY},
}
"""Values of the other options; those that are not named must have their defaults"""


def hf_class(bundle: Bundle) -> HfClass:
    """Return the class that holds the model, provided that `shape_problem` finds no reason against it."""
    config = bundle.model_config
    if isinstance(config, DecoderOnlyConfig):
        if not isinstance(config.decoder, StackConfig) or config.decoder.positions != "rotary":
            return "GPT2LMHeadModel"
        return "LlamaForCausalLM" if config.decoder.norm_kind == "rms" else "Starcoder2ForCausalLM"
    post = isinstance(config, TransformerConfig | EncoderDecoderConfig) and (
        getattr(config.as_encoder_decoder().decoder, "norm", None) == "post"
    )
    return "MarianMTModel" if post else "PegasusForConditionalGeneration"


def is_encoder_decoder(bundle: Bundle) -> bool:
    return not isinstance(bundle.model_config, DecoderOnlyConfig)


def shape_problem(bundle: Bundle) -> str | None:
    """Return why no class can hold the model, as the rest of "cannot export: …", or None."""
    if isinstance(bundle.model_config, EncoderOnlyConfig):
        return "only models that generate text are exported there, not encoders"
    config = _split(bundle.model_config)
    parts = [config.encoder, config.decoder] if isinstance(config, EncoderDecoderConfig) else [config.decoder]
    stacks = [part for part in parts if isinstance(part, StackConfig) and part.kind == "transformer"]
    for part in parts:
        if part not in stacks:
            return f"transformers has no class with {part.kind} layers of this form; {_way_out(bundle)}"
    name = hf_class(bundle)
    reasons = [reason for stack in stacks for reason in _misfits(stack, name)]
    reasons += _unequal(*stacks) if len(stacks) == 2 else _bias_problem(bundle)
    if name == "PegasusForConditionalGeneration" and is_marian(bundle.tokenizers) and not bundle.tokenizers.joint:
        reasons.append("the two vocabularies of an imported Marian model")
    if not reasons:
        return None
    return f"{name} of transformers cannot express {reasons[0]}; {_way_out(bundle)}"


def _split(
    config: TransformerConfig | EncoderDecoderConfig | DecoderOnlyConfig,
) -> EncoderDecoderConfig | DecoderOnlyConfig:
    """Split the options of a Transformer into those of encoder and decoder."""
    return config if isinstance(config, DecoderOnlyConfig) else config.as_encoder_decoder()


def _way_out(bundle: Bundle) -> str:
    """Return what can be done with a model that is refused."""
    problems = {"ctranslate2": ctranslate2_problem(bundle), "onnx": onnx_problem(bundle)}
    ways = [name for name, problem in problems.items() if problem is None]
    return f"export to {' or '.join(ways)} instead" if ways else "regard itself runs it (translate, generate, serve)"


def _misfits(config: StackConfig, name: HfClass) -> Iterator[str]:
    """Yield the options of a stack that the class cannot express, as option=value."""
    heads, allowed = config.heads, _ALLOWED[name]
    width = heads.key_width if name == "LlamaForCausalLM" else config.d_model // config.n_heads
    if not heads.value_width == heads.key_width == width:
        yield f"heads of width {heads.key_width} (values {heads.value_width})"
    for option, value in config:
        values = allowed.get(option, (type(config).model_fields[option].default,))
        if option not in _ANY and value not in values:
            yield f"{option}={value}"


def _bias_problem(bundle: Bundle) -> list[str]:
    """Return the bias of a decoder-only model's output layer if it does more than to suppress special tokens."""
    assert isinstance(bundle.model, DecoderOnly)
    if (bias := bundle.model.output.bias) is None:
        return []
    others = bias.detach().clone()
    others[suppressed_ids(bundle)] = 0.0
    return ["output_bias=True"] if others.any() else []


def _unequal(encoder: StackConfig, decoder: StackConfig) -> list[str]:
    """Return the options that must be the same in encoder and decoder but are not."""
    names = ("d_model", "norm", "activation", "scale_embedding")
    pairs = [(name, getattr(encoder, name), getattr(decoder, name)) for name in names]
    return [f"{name}={a} in the encoder and {b} in the decoder" for name, a, b in pairs if a != b]
