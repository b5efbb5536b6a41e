"""Import of Marian (OPUS-MT) and Pegasus models in the format of Hugging Face."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from regard import models
from regard.convert.id_map import IdMap
from regard.convert.imports.imported_model import ACTIVATIONS, ImportedModel, decode_settings, prefixed, stacked
from regard.convert.imports.marian_vocabulary import MarianVocabulary, marian_tokenizers
from regard.convert.imports.model_folder import JsonObject, ModelFolder
from regard.convert.imports.model_languages import find_languages
from regard.convert.imports.own_tokenizers import own_id_maps, own_tokenizers
from regard.convert.imports.tensor_files import Safetensors, TensorFiles, WeightReader, vocab_size
from regard.convert.split_positions import interleave_positions, position_layout
from regard.errors import UserError
from regard.models import ModelConfig
from regard.models.encoder_decoder import EncoderDecoderConfig, TransformerConfig
from regard.models.stack import StackConfig
from regard.text.tokenizer import TokenizerPair

_STACK = {side: f"model.{side}" for side in ("encoder", "decoder")}
_SHARED = "model.shared.weight"
_BIAS = "final_logits_bias"
_EMBEDDINGS = {side: f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder")}
_POSITIONS = {side: f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")}
_IGNORED = r"model\.(shared|(en|de)coder\.embed_(tokens|positions))\.weight|lm_head\.weight|final_logits_bias"


def read_marian(folder: ModelFolder, config: JsonObject, languages: tuple[str, str] | None) -> ImportedModel:
    """Read what is known of a Marian model before its weights."""
    if (own := own_tokenizers(folder)) is not None:
        return _own_model("Marian", folder, config, own, languages)
    shared = config.flag("share_encoder_decoder_embeddings", True)
    languages = languages or find_languages(folder)
    specials = {
        "bos": config.id("decoder_start_token_id"),
        "eos": config.id("eos_token_id"),
        "pad": config.id("pad_token_id"),
    }
    files = Safetensors(folder)
    names = ["vocab.json"] if shared else ["vocab.json", "target_vocab.json"]
    vocabularies = [
        MarianVocabulary.of(folder.json(name).tree, size, str(folder.path / name))
        for name, size in zip(names, _table_sizes(config, files), strict=True)
    ]
    maps = [*(vocabulary.id_map() for vocabulary in vocabularies[:-1]), vocabularies[-1].id_map(**specials)]
    tokenizers = marian_tokenizers(folder, vocabularies, maps, languages)
    return seq2seq_model("Marian", folder, config, files, tokenizers, maps, languages)


def read_pegasus(folder: ModelFolder, config: JsonObject, languages: tuple[str, str] | None) -> ImportedModel:
    """Read what is known of a Pegasus model that regard has exported, before its weights."""
    if (own := own_tokenizers(folder)) is None:
        raise UserError(f"{folder}: of Pegasus models, only those that regard has exported can be imported")
    return _own_model("Pegasus", folder, config, own, languages)


def _own_model(
    title: str, folder: ModelFolder, config: JsonObject, own: TokenizerPair, languages: tuple[str, str] | None
) -> ImportedModel:
    files = Safetensors(folder)
    maps = own_id_maps(own, _table_sizes(config, files), config.where)
    languages = languages or find_languages(folder)
    return seq2seq_model(title, folder, config, files, own, maps, languages, is_own=True)


def _table_sizes(config: JsonObject, files: TensorFiles) -> list[int]:
    """Return the number of embeddings of both sides, or of each."""
    size = vocab_size(config, files)
    if config.flag("share_encoder_decoder_embeddings", True):
        return [size]
    return [size, vocab_size(config, files, "decoder_vocab_size", size)]


def seq2seq_model(
    title: str,
    folder: ModelFolder,
    config: JsonObject,
    files: TensorFiles,
    tokenizers: TokenizerPair,
    maps: Sequence[IdMap],
    languages: tuple[str, str],
    is_own: bool = False,
) -> ImportedModel:
    """Return the model that config.json describes, or another file in its terms; `maps` are as many as vocabularies."""
    config.require("activation_function", *ACTIVATIONS)
    layouts = {side: position_layout(files, name) for side, name in _POSITIONS.items()}
    is_split = set(layouts.values()) == {"split"}
    positions = {
        side: "sinusoidal" if is_split or layout == "alternating" else "learned" for side, layout in layouts.items()
    }
    norm = "pre" if f"{_STACK['encoder']}.layer_norm.weight" in files.shapes else "post"
    outer = {"output_bias": _has_bias(files, maps[-1]), "tied": config.flag("tie_word_embeddings", True)}
    model_config = _model_config(config, norm, positions, outer)
    return ImportedModel(
        title,
        "translate",
        model_config,
        tokenizers,
        files,
        Seq2SeqWeights(model_config, maps, is_split),
        _IGNORED,
        languages,
        decode_settings(folder, min(1024, config.number("max_position_embeddings", 1024)), is_own),
    )


def _has_bias(files: TensorFiles, id_map: IdMap) -> bool:
    """Whether some logits of ours have a bias"""
    if -1 in id_map.outputs:
        return True
    return files.shapes.get(_BIAS) == (1, id_map.size) and bool(id_map.bias(files.read(_BIAS)[0].float()).any())


def _model_config(config: JsonObject, norm: str, positions: dict[str, str], outer: dict[str, Any]) -> ModelConfig:
    """Return the options of our model: those of `transformer` if encoder and decoder have the same widths."""
    encoder, decoder = ({**_stack_options(config, side, positions[side]), "norm": norm} for side in _STACK)
    n_encoder, n_decoder = config.number("encoder_layers"), config.number("decoder_layers")
    if encoder == decoder:
        tree = {**encoder, "n_layers": n_encoder, "n_decoder_layers": n_decoder, **outer}
    else:
        sides = {"encoder": {**encoder, "n_layers": n_encoder}, "decoder": {**decoder, "n_layers": n_decoder}}
        tree = {"kind": "encoder-decoder", **sides, **outer}
    return models.parse_config(tree, where=config.where)


def _stack_options(config: JsonObject, side: str, positions: str) -> dict[str, Any]:
    # Sinusoids have no limit.
    limit = {"max_len": config.number("max_position_embeddings")} if positions == "learned" else {}
    return {
        **limit,
        "positions": positions,
        "kind": "transformer",
        "d_model": config.number("d_model"),
        "n_heads": config.number(f"{side}_attention_heads"),
        "d_ff": config.number(f"{side}_ffn_dim"),
        "dropout": config.get("dropout", float, 0.1),
        "attention_dropout": config.get("attention_dropout", float, 0.0),
        "norm_eps": config.optional("layer_norm_eps", float),
        "activation": ACTIVATIONS[config.text("activation_function")],
        "scale_embedding": config.flag("scale_embedding"),
    }


@dataclass(frozen=True)
class Seq2SeqWeights:
    """Reads the tensors of our model from those of a Marian or Pegasus model."""

    config: ModelConfig
    maps: Sequence[IdMap]
    """Of both sides, or of each"""
    is_split: bool
    """Whether sines come before cosines in their sinusoidal positions; ours alternate"""

    def __call__(self, reader: WeightReader) -> dict[str, Tensor]:
        assert isinstance(self.config, TransformerConfig | EncoderDecoderConfig)
        config = self.config.as_encoder_decoder()
        assert isinstance(config.encoder, StackConfig) and isinstance(config.decoder, StackConfig)
        tensors = {
            **self._embeddings(reader, config.tied, config.decoder.d_model),
            **prefixed("encoder", _stack(reader, "encoder", config.encoder)),
            **prefixed("decoder", _stack(reader, "decoder", config.decoder)),
        }
        if config.output_bias:
            size = self.maps[-1].size
            bias = reader.tensor(_BIAS, 1, size)[0] if reader.has(_BIAS) else reader.zeros(size)
            tensors["output.bias"] = self.maps[-1].bias(bias)
        return interleave_positions(tensors) if self.is_split else tensors

    def _embeddings(self, reader: WeightReader, tied: bool, width: int) -> dict[str, Tensor]:
        src, tgt = self.maps[0], self.maps[-1]
        # An untied file holds all tables; a tied one may hold them under several names, of which this one counts.
        shared = reader.has(_SHARED) and (tied or not reader.has(_EMBEDDINGS["encoder"]))
        names = {side: _SHARED if shared else name for side, name in _EMBEDDINGS.items()}
        tensors = {"encoder.embedding.tokens.weight": src.rows(reader.tensor(names["encoder"], src.size, width))}
        if len(self.maps) == 1 and tied:
            return tensors
        tensors["decoder.embedding.tokens.weight"] = tgt.rows(reader.tensor(names["decoder"], tgt.size, width))
        if not tied:
            tensors["output.weight"] = tgt.rows(reader.tensor("lm_head.weight", tgt.size, width), outputs=True)
        return tensors


def _stack(reader: WeightReader, side: str, config: StackConfig) -> dict[str, Tensor]:
    tensors = {}
    if config.positions == "learned":
        tensors["embedding.positions.table"] = reader.tensor(_POSITIONS[side], config.max_len, config.d_model)
    for i in range(config.n_layers):
        tensors |= prefixed(f"layers.{i}", _layer(reader, f"{_STACK[side]}.layers.{i}", config, side == "decoder"))
    if config.norm == "pre":
        tensors |= prefixed("norm", reader.norm(f"{_STACK[side]}.layer_norm", config.d_model))
    return tensors


def _layer(reader: WeightReader, name: str, config: StackConfig, has_cross: bool) -> dict[str, Tensor]:
    d, d_ff = config.d_model, config.d_ff
    tensors = {
        **prefixed("mixer", _attention(reader, f"{name}.self_attn", d)),
        **prefixed("mixer_residual.norm", reader.norm(f"{name}.self_attn_layer_norm", d)),
        **prefixed("feedforward.inner", reader.linear(f"{name}.fc1", d_ff, d)),
        **prefixed("feedforward.outer", reader.linear(f"{name}.fc2", d, d_ff)),
        **prefixed("feedforward_residual.norm", reader.norm(f"{name}.final_layer_norm", d)),
    }
    if has_cross:
        tensors |= prefixed("cross", _attention(reader, f"{name}.encoder_attn", d))
        tensors |= prefixed("cross_residual.norm", reader.norm(f"{name}.encoder_attn_layer_norm", d))
    return tensors


def _attention(reader: WeightReader, name: str, d: int) -> dict[str, Tensor]:
    query, key, value, out = (reader.linear(f"{name}.{part}_proj", d, d) for part in ("q", "k", "v", "out"))
    return {**prefixed("query", query), **prefixed("key_value", stacked(key, value)), **prefixed("out", out)}
