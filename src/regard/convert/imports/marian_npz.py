"""Marian's own .npz files, under the names that tensors and options have in transformers."""

import re
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from regard.config import parse_yaml
from regard.convert.imports.model_folder import MAX_YAML, JsonObject
from regard.convert.imports.tensor_files import Npz
from regard.errors import UserError

_CONFIG = "special:model.yml"
_ACTIVATIONS = ("swish", "relu")  # their gelu is an approximation that we do not have

_LAYER = re.compile(r"(?P<side>encoder|decoder)_l(?P<layer>\d{1,4})_(?P<part>\w+)")
_ATTENTION = {"self": "self_attn", "context": "encoder_attn"}
_PARTS = {
    **{
        f"{ours}_{letter}{part}": f"{theirs}.{'out' if part == 'o' else part}_proj.{kind}"
        for ours, theirs in _ATTENTION.items()
        for part in "qkvo"
        for letter, kind in (("W", "weight"), ("b", "bias"))
    },
    **{
        f"{ours}_ln_{old}{suffix}": f"{theirs}layer_norm.{kind}"
        for ours, theirs in {
            **{f"{name}_Wo": f"{attention}_" for name, attention in _ATTENTION.items()},
            "ffn_ffn": "final_",
        }.items()
        for suffix in ("", "_pre")
        for old, kind in (("scale", "weight"), ("bias", "bias"))
    },
    **{f"ffn_{letter}{n}": f"fc{n}.{kind}" for n in "12" for letter, kind in (("W", "weight"), ("b", "bias"))},
}
"""Names inside of a layer"""
_TOP = {
    "Wemb": "model.shared.weight",
    "encoder_Wemb": "model.encoder.embed_tokens.weight",
    "decoder_Wemb": "model.decoder.embed_tokens.weight",
    "decoder_ff_logit_out_b": "final_logits_bias",
    "decoder_ff_logit_out_W": "lm_head.weight",
    "decoder_ff_logit_out_Wt": "lm_head.weight",
    **{
        f"{side}_top_ln_{old}": f"model.{side}.layer_norm.{kind}"
        for side in ("encoder", "decoder")
        for old, kind in (("scale", "weight"), ("bias", "bias"))
    },
}
_UNCHANGED = ("Wemb", "Wt", "_out_b")
"""Ends of names whose arrays have the same shape in transformers"""


class _Array(NamedTuple):
    name: str
    change: Literal["none", "transpose", "row"]
    """How it becomes a tensor of transformers: as it is, transposed, or as a vector instead of a row"""


class MarianNpz:
    """The tensors of a Marian model, and its options."""

    def __init__(self, npz: Npz) -> None:
        self._npz = npz
        self.where = npz.where
        self._arrays: dict[str, _Array] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        for name, shape in npz.shapes.items():
            if name.startswith("special:"):
                continue
            array = _Array(name, _change(name, shape))
            theirs = _name_in_transformers(name)
            self._arrays[theirs] = array
            self.shapes[theirs] = {"none": shape, "transpose": shape[::-1], "row": shape[1:]}[array.change]

    def read(self, name: str) -> Tensor:
        array = self._arrays[name]
        tensor = torch.from_numpy(self._npz.array(array.name))
        return {"none": tensor, "transpose": tensor.T, "row": tensor[0]}[array.change]

    def config(self) -> JsonObject:
        """Return the options of the model under their names in transformers."""
        options = self._options()
        for key, allowed in {
            "type": ("transformer",),
            "transformer-decoder-autoreg": ("self-attention",),
            "transformer-no-projection": (False,),
            "transformer-ffn-activation": _ACTIVATIONS,
            "transformer-postprocess-emb": ("", "d"),
            "transformer-ffn-depth": (2,),
            "transformer-train-position-embeddings": (False,),
            "transformer-tied-layers": ([],),
        }.items():
            options.require(key, *allowed, default=allowed[0])
        n_heads, d_ff = options.number("transformer-heads"), options.number("transformer-dim-ffn")
        tied = any(options.flag(key) for key in ("tied-embeddings-all", "tied-embeddings"))
        tree = {
            "d_model": options.number("dim-emb"),
            "encoder_layers": options.number("enc-depth"),
            "decoder_layers": options.number("dec-depth"),
            **{f"{side}_attention_heads": n_heads for side in ("encoder", "decoder")},
            **{f"{side}_ffn_dim": d_ff for side in ("encoder", "decoder")},
            "activation_function": options.text("transformer-ffn-activation"),
            "dropout": options.get("transformer-dropout", float, 0.1),
            "attention_dropout": options.get("transformer-dropout-attention", float, 0.0),
            "scale_embedding": True,
            "tie_word_embeddings": tied,
            "layer_norm_eps": 1e-6,
        }
        return JsonObject(tree, self.where)

    def _options(self) -> JsonObject:
        if _CONFIG not in self._npz.shapes:
            raise UserError(f"{self.where}: has no options ({_CONFIG}), so this is not a model of Marian")
        content = self._npz.array(_CONFIG).tobytes().rstrip(b"\0")
        try:
            tree: Any = parse_yaml(content[:MAX_YAML].decode(), aliases=False)
        except ValueError:
            tree = None
        if not isinstance(tree, dict):
            raise UserError(f"{self.where}: its options ({_CONFIG}) are not valid YAML; the file is damaged")
        return JsonObject(tree, self.where)


def _name_in_transformers(name: str) -> str:
    """Return the name of an array in transformers; one that is not known keeps its name and is refused later."""
    layer = _LAYER.fullmatch(name)
    if layer is None or layer["part"] not in _PARTS:
        return _TOP.get(name, name)
    return f"model.{layer['side']}.layers.{int(layer['layer']) - 1}.{_PARTS[layer['part']]}"


def _change(name: str, shape: tuple[int, ...]) -> Literal["none", "transpose", "row"]:
    if name.endswith(_UNCHANGED) or len(shape) != 2:
        return "none"
    return "row" if shape[0] == 1 else "transpose"
