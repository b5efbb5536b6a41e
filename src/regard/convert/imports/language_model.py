"""Import of language models: GPT-2, and Llama with the models of the same arithmetic (Mistral, Qwen 2)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from regard import models
from regard.convert.id_map import SUPPRESSED, IdMap
from regard.convert.imports.imported_model import ACTIVATIONS, ImportedModel, prefixed, stacked
from regard.convert.imports.model_folder import JsonObject, ModelFolder
from regard.convert.imports.own_tokenizers import own_id_maps, own_tokenizers
from regard.convert.imports.tensor_files import Safetensors, TensorFiles, WeightReader, vocab_size
from regard.convert.imports.tokenizer_json import TokenizerJson
from regard.errors import UserError
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.stack import StackConfig
from regard.text.tokenizer import TokenizerPair

_MAX_CONTEXT = 4096  # tokens that a model is given at once, if it allows more


def read_gpt2(folder: ModelFolder, config: JsonObject, languages: tuple[str, str] | None) -> ImportedModel:
    """Read what is known of a GPT-2 model before its weights."""
    config.require("activation_function", *ACTIVATIONS, default="gelu_new")
    for name in ("scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention"):
        config.require(name, False, default=False)
    config.require("scale_attn_weights", True, default=True)
    d_model, n_positions = config.number("n_embd"), config.number("n_positions")
    options = {
        "d_model": d_model,
        "n_heads": config.number("n_head"),
        "n_layers": config.number("n_layer"),
        "d_ff": config.number("n_inner", 4 * d_model),
        "dropout": config.get("resid_pdrop", float, 0.1),
        "attention_dropout": config.get("attn_pdrop", float, 0.1),
        "norm_eps": config.get("layer_norm_epsilon", float, 1e-5),
        "activation": ACTIVATIONS[config.text("activation_function", "gelu_new")],
        "positions": "learned",
        "max_len": n_positions,
    }
    return _language_model("GPT-2", folder, config, options, _gpt2_weights, n_positions)


def read_llama(folder: ModelFolder, config: JsonObject, languages: tuple[str, str] | None) -> ImportedModel:
    """Read what is known of a Llama model, or of one with the same arithmetic, before its weights."""
    config.require("hidden_act", "silu", "swish", default="silu")
    config.require("use_sliding_window", False, default=False)
    context = min(config.number("max_position_embeddings"), config.number("sliding_window", _MAX_CONTEXT))
    d_model, n_heads = config.number("hidden_size"), config.number("num_attention_heads")
    has_bias = config.text("model_type") == "qwen2" or config.flag("attention_bias") or config.flag("mlp_bias")
    options = {
        "d_model": d_model,
        "n_heads": n_heads,
        "n_kv_heads": config.number("num_key_value_heads", n_heads),
        "d_head": config.optional("head_dim", int),
        "n_layers": config.number("num_hidden_layers"),
        "d_ff": config.number("intermediate_size"),
        "dropout": 0.0,
        "attention_dropout": config.get("attention_dropout", float, 0.0),
        "norm_kind": "rms",
        "norm_eps": config.get("rms_norm_eps", float, 1e-6),
        "activation": "swiglu",
        "bias": has_bias,
        "positions": "rotary",
        **_rope(config),
    }
    return _language_model("Llama", folder, config, options, _llama_weights, context)


def _rope(config: JsonObject) -> dict[str, Any]:
    """Return our options of rotary positions."""
    nested = config.optional("rope_parameters", dict) or config.optional("rope_scaling", dict) or {}
    rope = JsonObject({**nested, "rope_theta": nested.get("rope_theta", config.tree.get("rope_theta"))}, config.where)
    kind = rope.text("rope_type", rope.text("type", "default"))
    theta = rope.get("rope_theta", float, 10_000.0)
    if kind == "default":
        return {"rope_theta": theta}
    if kind != "llama3":
        raise UserError(f"{config.where}: rotary positions of type {kind!r:.40} cannot be imported; llama3 can")
    scaling = {
        "factor": rope.get("factor", float),
        "low": rope.get("low_freq_factor", float),
        "high": rope.get("high_freq_factor", float),
        "context": rope.number("original_max_position_embeddings"),
    }
    return {"rope_theta": theta, "rope_scaling": scaling}


def _language_model(
    title: str,
    folder: ModelFolder,
    config: JsonObject,
    options: dict[str, Any],
    weights: Callable[[WeightReader, DecoderOnlyConfig, IdMap], dict[str, Tensor]],
    context: int,
) -> ImportedModel:
    files = Safetensors(folder)
    tokenizers, id_map = _tokenizers(folder, config, files)
    decoder = {"kind": "transformer", "scale_embedding": False, **options}
    tied = config.flag("tie_word_embeddings", default=title == "GPT-2")
    tree = {"kind": "decoder", "decoder": decoder, "tied": tied, "output_bias": -1 in id_map.outputs}
    model_config = models.parse_config(tree, where=config.where)
    assert isinstance(model_config, DecoderOnlyConfig)
    return ImportedModel(
        title,
        "text",
        model_config,
        tokenizers,
        files,
        LanguageModelWeights(model_config, id_map, weights),
        r"(.*\.)?(lm_head\.weight|attn\.(masked_)?bias|rotary_emb\.inv_freq)",
        context=max(2, min(context, _MAX_CONTEXT)),
    )


def _tokenizers(folder: ModelFolder, config: JsonObject, files: TensorFiles) -> tuple[TokenizerPair, IdMap]:
    size = vocab_size(config, files)
    if (own := own_tokenizers(folder)) is not None:
        return own, own_id_maps(own, [size], config.where)[-1].suppress(config.get(SUPPRESSED, list, []))
    vocabulary = TokenizerJson.read(folder)
    eos, bos = config.id("eos_token_id"), config.id("bos_token_id")
    if bos is None and eos is None:
        raise UserError(f"{config.where}: has no bos_token_id and no eos_token_id, so no text can begin")
    id_map = vocabulary.id_map(size, eos=eos, bos=eos if bos is None else bos)
    tokenizer = vocabulary.tokenizer(id_map)
    return TokenizerPair(tokenizer, tokenizer), id_map


@dataclass(frozen=True)
class LanguageModelWeights:
    """Reads the tensors of our model from those of a language model."""

    config: DecoderOnlyConfig
    id_map: IdMap
    read: Callable[[WeightReader, DecoderOnlyConfig, IdMap], dict[str, Tensor]]

    def __call__(self, reader: WeightReader) -> dict[str, Tensor]:
        tensors = self.read(reader, self.config, self.id_map)
        if not self.config.tied:
            width = self.config.decoder.d_model
            output = reader.tensor("lm_head.weight", self.id_map.size, width)
            tensors["output.weight"] = self.id_map.rows(output, outputs=True)
        if self.config.output_bias:
            tensors["output.bias"] = self.id_map.bias(reader.zeros(self.id_map.size))
        return tensors


def _gpt2_weights(reader: WeightReader, config: DecoderOnlyConfig, id_map: IdMap) -> dict[str, Tensor]:
    stack = config.decoder
    assert isinstance(stack, StackConfig)
    d, d_ff = stack.d_model, stack.d_ff
    top = "transformer." if reader.has("transformer.wte.weight") else ""

    def linear(name: str, n_out: int, n_in: int) -> dict[str, Tensor]:
        return {"weight": reader.tensor(f"{name}.weight", n_in, n_out).T, "bias": reader.tensor(f"{name}.bias", n_out)}

    tensors = {
        "decoder.embedding.tokens.weight": id_map.rows(reader.tensor(f"{top}wte.weight", id_map.size, d)),
        "decoder.embedding.positions.table": reader.tensor(f"{top}wpe.weight", stack.max_len, d),
        **prefixed("decoder.norm", reader.norm(f"{top}ln_f", d)),
    }
    for i in range(stack.n_layers):
        name = f"{top}h.{i}"
        joint = linear(f"{name}.attn.c_attn", 3 * d, d)
        layer = {
            **prefixed("mixer.query", {part: tensor[:d] for part, tensor in joint.items()}),
            **prefixed("mixer.key_value", {part: tensor[d:] for part, tensor in joint.items()}),
            **prefixed("mixer.out", linear(f"{name}.attn.c_proj", d, d)),
            **prefixed("mixer_residual.norm", reader.norm(f"{name}.ln_1", d)),
            **prefixed("feedforward.inner", linear(f"{name}.mlp.c_fc", d_ff, d)),
            **prefixed("feedforward.outer", linear(f"{name}.mlp.c_proj", d, d_ff)),
            **prefixed("feedforward_residual.norm", reader.norm(f"{name}.ln_2", d)),
        }
        tensors |= prefixed(f"decoder.layers.{i}", layer)
    return tensors


def _llama_weights(reader: WeightReader, config: DecoderOnlyConfig, id_map: IdMap) -> dict[str, Tensor]:
    stack = config.decoder
    assert isinstance(stack, StackConfig)
    d, d_ff, bias = stack.d_model, stack.d_ff, stack.bias
    d_query = stack.n_heads * stack.heads.key_width
    d_key = (stack.n_kv_heads or stack.n_heads) * stack.heads.key_width
    tensors = {
        "decoder.embedding.tokens.weight": id_map.rows(reader.tensor("model.embed_tokens.weight", id_map.size, d)),
        **prefixed("decoder.norm", reader.norm("model.norm", d, bias=False)),
    }
    for i in range(stack.n_layers):
        attention, mlp = f"model.layers.{i}.self_attn", f"model.layers.{i}.mlp"
        key, value = (reader.linear(f"{attention}.{part}_proj", d_key, d, bias) for part in "kv")
        gate, up = (reader.linear(f"{mlp}.{part}_proj", d_ff, d, bias) for part in ("gate", "up"))
        norms = {"mixer": "input_layernorm", "feedforward": "post_attention_layernorm"}
        layer = {
            **prefixed("mixer.query", reader.linear(f"{attention}.q_proj", d_query, d, bias)),
            **prefixed("mixer.key_value", stacked(key, value)),
            **prefixed("mixer.out", reader.linear(f"{attention}.o_proj", d, d_query, bias)),
            **prefixed("feedforward.inner", stacked(gate, up)),
            **prefixed("feedforward.outer", reader.linear(f"{mlp}.down_proj", d, d_ff, bias)),
        }
        for ours, theirs in norms.items():
            layer |= prefixed(f"{ours}_residual.norm", reader.norm(f"model.layers.{i}.{theirs}", d, bias=False))
        tensors |= prefixed(f"decoder.layers.{i}", layer)
    return tensors
