"""Export to a web page that translates in the browser: the page, its JavaScript, the weights and the tokenizer."""

import json
import shutil
from pathlib import Path
from typing import Any, ClassVar

import torch
from safetensors.torch import save
from torch import Tensor

from regard.bundle import Bundle
from regard.convert.export_format import ExportOptions, Quantization
from regard.convert.onnx.problem import onnx_problem
from regard.convert.web.model import WebModel
from regard.convert.web.tokenizer import describe_tokenizer, tokenizer_problem
from regard.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig, TransformerConfig
from regard.models.stack import StackConfig, StackDecoder, StackEncoder
from regard.models.weights import weights_of
from regard.nn.positions import Rope
from regard.text.vocab import BOS, EOS, NEVER_GENERATED

_STATIC = Path(__file__).with_name("static")
_REQUIRED = {"kind": "transformer", "attention": "softmax", "normalise": "softmax"}
_KNOWN = {
    *("d_model", "n_heads", "n_kv_heads", "d_head", "d_value", "d_ff", "n_layers", "norm", "norm_kind", "norm_eps"),
    *("activation", "bias", "positions", "rope_theta", "rope_scaling", "scale_embedding", "embedding_norm", "join"),
    *("score", "max_len", "dropout", "attention_dropout", "feature"),
}
"""Options that transformer.js knows, or that make no difference to it"""


class WebFormat:
    """A folder of static files."""

    name: ClassVar[str] = "web"
    title: ClassVar[str] = "a web page"
    is_file: ClassVar[bool] = False
    quantizations: ClassVar[tuple[Quantization, ...]] = ("float32", "int8")
    has_shortlist: ClassVar[bool] = False

    def problem(self, bundle: Bundle, options: ExportOptions) -> str | None:
        if problem := _model_problem(bundle):
            return f"{problem}; {'serve it with `regard serve`' if onnx_problem(bundle) else 'export it to onnx'}"
        return None

    def write(self, bundle: Bundle, folder: Path, options: ExportOptions) -> None:
        shutil.copytree(_STATIC, folder, dirs_exist_ok=True)
        weights = save(_weights(bundle, options.quantization == "int8"))
        (folder / "model.safetensors").write_bytes(weights)  # save_file would make it unreadable for web servers
        text = json.dumps(_config(bundle), ensure_ascii=False, indent=1)
        (folder / "config.json").write_text(text + "\n", encoding="utf-8")

    def open(self, folder: Path, bundle: Bundle) -> WebModel:
        return WebModel(folder)

    def usage(self, bundle: Bundle) -> str:
        return """Copy the folder to any web server, or serve it from this machine:

    python -m http.server --directory .

The page translates in the browser. It sends nothing anywhere and loads nothing from elsewhere.
"""


def _model_problem(bundle: Bundle) -> str | None:
    """Return why the page cannot run a model; None: it can."""
    if bundle.task != "translate" or not isinstance(bundle.model, EncoderDecoder):
        return "the page is for translators with an encoder and a decoder"
    if len(bundle.all_directions.targets) > 1:
        return "the page is for models with one target language"
    problems = [_stack_problem(stack) for stack in _stacks(bundle)]
    problems += [tokenizer_problem(tokenizer) for tokenizer in (bundle.tokenizers.src, bundle.tokenizers.tgt)]
    return next((problem for problem in problems if problem), None)


def _stacks(bundle: Bundle) -> list[Any]:
    """Return the options of encoder and decoder."""
    assert isinstance(bundle.model_config, TransformerConfig | EncoderDecoderConfig)
    config = bundle.model_config.as_encoder_decoder()
    return [config.encoder, config.decoder]


def _stack_problem(config: Any) -> str | None:
    if not isinstance(config, StackConfig) or any(getattr(config, name) != value for name, value in _REQUIRED.items()):
        return "the page runs Transformers with softmax attention only"
    if config.score not in ("dot", "scaled-dot"):
        return f"the page does not know the score {config.score}"
    for name, field in StackConfig.model_fields.items():
        if name not in _KNOWN | _REQUIRED.keys() and getattr(config, name) != field.default:
            return f"the page does not know the option {name}={getattr(config, name)}"
    return None


def _weights(bundle: Bundle, int8: bool) -> dict[str, Tensor]:
    """Return the tensors of model.safetensors, with the constants of rotary positions."""
    tensors = {name: tensor.float().contiguous() for name, tensor in weights_of(bundle.model).items()}
    if int8:
        tensors = {name: part for full, tensor in tensors.items() for name, part in _quantize(full, tensor).items()}
    for side, config in zip(("encoder", "decoder"), _stacks(bundle), strict=True):
        if config.positions == "rotary":
            rope = Rope(config.rope_theta, config.rope_scaling)
            periods = rope.periods(config.heads.key_width, torch.device("cpu"), torch.float32)
            tensors[f"{side}.rope_periods"] = periods
    return tensors


def _quantize(name: str, tensor: Tensor) -> dict[str, Tensor]:
    """Round a matrix to 8 bits, with one scale per row; vectors stay as they are."""
    if tensor.ndim < 2:
        return {name: tensor}
    scale = tensor.abs().amax(1).clamp(min=1e-30) / 127
    return {name: (tensor / scale[:, None]).round().to(torch.int8), f"{name}.scale": scale}


def _config(bundle: Bundle) -> dict[str, Any]:
    """Return the content of config.json."""
    model, decode = bundle.model, bundle.decode
    assert isinstance(model, EncoderDecoder)
    tokenizers = {"src": describe_tokenizer(bundle.tokenizers.src)}
    if bundle.tokenizers.tgt is not bundle.tokenizers.src:
        tokenizers["tgt"] = describe_tokenizer(bundle.tokenizers.tgt)
    limits = [decode.max_source, model.max_source_tokens]
    return {
        "languages": bundle.languages,
        "examples": bundle.examples,
        "special_ids": {"bos": BOS, "eos": EOS},
        "never_generated": NEVER_GENERATED,
        "beam": decode.beam,
        "length_penalty": decode.length_penalty,
        "min_len": decode.min_len,
        "max_len": decode.max_len,
        "max_source": min(limit for limit in limits if limit is not None),
        "max_target": None if model.max_len is None else model.max_len - 1,
        **{side: _stack(config) for side, config in zip(("encoder", "decoder"), _stacks(bundle), strict=True)},
        "shared": _shared_weights(model),
        "tokenizers": tokenizers,
    }


def _stack(config: StackConfig) -> dict[str, Any]:
    """Return what transformer.js needs to know of an encoder or decoder."""
    names = ("d_model", "n_heads", "d_ff", "n_layers", "norm", "norm_kind", "activation", "positions", "join")
    default_eps = torch.finfo(torch.float32).eps if config.norm_kind == "rms" else 1e-5
    return {
        **{name: getattr(config, name) for name in names},
        "n_kv_heads": config.n_kv_heads or config.n_heads,
        "d_key": config.heads.key_width,
        "d_value": config.heads.value_width,
        "score_scale": config.heads.key_width**-0.5 if config.score == "scaled-dot" else 1.0,
        "norm_eps": config.norm_eps or default_eps,
        "embedding_scale": config.d_model**0.5 if config.scale_embedding else 1.0,
        "embedding_norm": config.embedding_norm,
    }


def _shared_weights(model: EncoderDecoder) -> dict[str, str]:
    """Return the other names of tensors that occur in several places, e.g. a tied output layer."""
    assert isinstance(model.encoder, StackEncoder) and isinstance(model.decoder, StackDecoder)
    first: dict[int, str] = {}
    names = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if first.setdefault(id(parameter), name) != name:
            names[name] = first[id(parameter)]
    return names
