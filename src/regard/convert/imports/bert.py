"""Import of BERT encoders, with the head that fills in masked tokens."""

from dataclasses import dataclass

from torch import Tensor

from regard import models
from regard.convert.id_map import IdMap
from regard.convert.imports.imported_model import ACTIVATIONS, ImportedModel, prefixed, stacked
from regard.convert.imports.model_folder import JsonObject, ModelFolder
from regard.convert.imports.tensor_files import Safetensors, WeightReader, vocab_size
from regard.convert.imports.wordpiece_vocabulary import WordPieceVocabulary
from regard.models.encoder_only import EncoderOnlyConfig
from regard.models.stack import StackConfig
from regard.text.tokenizer import TokenizerPair

_HEAD = "cls.predictions"
_IGNORED = (
    r"(bert\.)?(pooler\.dense\.(weight|bias)|embeddings\.position_ids)|cls\.seq_relationship\.(weight|bias)|"
    r"cls\.predictions\.(decoder\.(weight|bias)|bias)"
)


def read_bert(folder: ModelFolder, config: JsonObject, languages: tuple[str, str] | None) -> ImportedModel:
    """Read what is known of a BERT model before its weights."""
    config.require("hidden_act", *ACTIVATIONS, default="gelu")
    config.require("position_embedding_type", "absolute", default="absolute")
    for name, value in {"is_decoder": False, "add_cross_attention": False, "tie_word_embeddings": True}.items():
        config.require(name, value, default=value)
    files = Safetensors(folder)
    vocabulary = WordPieceVocabulary.read(folder)
    id_map = vocabulary.id_map(vocab_size(config, files))
    tokenizer = vocabulary.tokenizer(id_map)
    encoder = {
        "kind": "transformer",
        "d_model": config.number("hidden_size"),
        "n_heads": config.number("num_attention_heads"),
        "n_layers": config.number("num_hidden_layers"),
        "d_ff": config.number("intermediate_size"),
        "dropout": config.get("hidden_dropout_prob", float, 0.1),
        "attention_dropout": config.get("attention_probs_dropout_prob", float, 0.1),
        "norm": "post",
        "norm_eps": config.get("layer_norm_eps", float, 1e-12),
        "activation": ACTIVATIONS[config.text("hidden_act", "gelu")],
        "positions": "learned",
        "max_len": config.number("max_position_embeddings"),
        "scale_embedding": False,
        "embedding_norm": True,
    }
    has_head = f"{_HEAD}.transform.dense.weight" in files.shapes
    tree = {"kind": "encoder", "encoder": encoder, "head": "tokens", "transform": has_head}
    model_config = models.parse_config(tree, where=config.where)
    assert isinstance(model_config, EncoderOnlyConfig)
    return ImportedModel(
        "BERT" if has_head else "BERT (without a head: it cannot fill in tokens)",
        "masked",
        model_config,
        TokenizerPair(tokenizer, tokenizer),
        files,
        BertWeights(model_config, id_map, config.number("type_vocab_size", 2)),
        _IGNORED,
    )


@dataclass(frozen=True)
class BertWeights:
    """Reads the tensors of our model from those of a BERT model."""

    config: EncoderOnlyConfig
    id_map: IdMap
    n_types: int
    """Kinds of segments, of which only the first is used: texts are not pairs"""

    def __call__(self, reader: WeightReader) -> dict[str, Tensor]:
        stack = self.config.encoder
        assert isinstance(stack, StackConfig)
        d, size = stack.d_model, self.id_map.size
        top = "bert." if reader.has("bert.embeddings.word_embeddings.weight") else ""
        tensors = prefixed("encoder.embedding", self._embedding(reader, f"{top}embeddings", stack))
        for i in range(stack.n_layers):
            tensors |= prefixed(f"encoder.layers.{i}", _layer(reader, f"{top}encoder.layer.{i}", stack))
        if self.config.transform:
            tensors |= prefixed("transform.0", reader.linear(f"{_HEAD}.transform.dense", d, d))
            tensors |= prefixed("transform.2", _norm(reader, f"{_HEAD}.transform.LayerNorm", d))
        bias = f"{_HEAD}.bias"
        tensors["output.bias"] = self.id_map.bias(reader.tensor(bias, size) if reader.has(bias) else reader.zeros(size))
        return tensors

    def _embedding(self, reader: WeightReader, name: str, stack: StackConfig) -> dict[str, Tensor]:
        d = stack.d_model
        segment = reader.tensor(f"{name}.token_type_embeddings.weight", self.n_types, d)[0]
        words = reader.tensor(f"{name}.word_embeddings.weight", self.id_map.size, d)
        return {
            "tokens.weight": self.id_map.rows(words),
            "positions.table": reader.tensor(f"{name}.position_embeddings.weight", stack.max_len, d) + segment,
            **prefixed("norm", _norm(reader, f"{name}.LayerNorm", d)),
        }


def _layer(reader: WeightReader, name: str, stack: StackConfig) -> dict[str, Tensor]:
    d, d_ff = stack.d_model, stack.d_ff
    query, key, value = (reader.linear(f"{name}.attention.self.{part}", d, d) for part in ("query", "key", "value"))
    return {
        **prefixed("mixer.query", query),
        **prefixed("mixer.key_value", stacked(key, value)),
        **prefixed("mixer.out", reader.linear(f"{name}.attention.output.dense", d, d)),
        **prefixed("mixer_residual.norm", _norm(reader, f"{name}.attention.output.LayerNorm", d)),
        **prefixed("feedforward.inner", reader.linear(f"{name}.intermediate.dense", d_ff, d)),
        **prefixed("feedforward.outer", reader.linear(f"{name}.output.dense", d, d_ff)),
        **prefixed("feedforward_residual.norm", _norm(reader, f"{name}.output.LayerNorm", d)),
    }


def _norm(reader: WeightReader, name: str, width: int) -> dict[str, Tensor]:
    """Read a norm, whose parts are called gamma and beta in the first BERT models."""
    if not reader.has(f"{name}.gamma"):
        return reader.norm(name, width)
    return {"weight": reader.tensor(f"{name}.gamma", width), "bias": reader.tensor(f"{name}.beta", width)}
