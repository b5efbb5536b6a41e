"""A sentence splitter for Argos Translate: rules as an ONNX network in the form of MiniSBD.

Argos splits texts before it translates them, with a network that it downloads unless a package brings its own. Ours is
a convolution over the kinds of characters whose weights are written by hand; it works for any language.
"""

import json
import sys
import unicodedata

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

_PAD, _OTHER, _STOP, _CLOSER, _SPACE, _LOWER, _WIDE_STOP, _END = range(8)
"""Kinds of characters. A wide stop ends a sentence without a space after it, as in Chinese."""
_CHARACTERS = {_STOP: ".!?…‽؟۔।", _CLOSER: "\"'”’»)]」』）", _SPACE: " ", _WIDE_STOP: "。！？"}

_RULES: list[dict[int, dict[int, float]]] = [
    {0: {_STOP: 1}, 1: {_SPACE: 1}, 2: {_LOWER: -1}},
    {-1: {_STOP: 1}, 0: {_CLOSER: 1}, 1: {_SPACE: 1}, 2: {_LOWER: -1}},
    {0: {_WIDE_STOP: 1}, 1: {_CLOSER: -1, _WIDE_STOP: -1}},
    {-1: {_WIDE_STOP: 1}, 0: {_CLOSER: 1}},
]
"""A sentence ends at a character if one of these holds: place, counted from the character → kind → 1 or, if it must not
be there, −1. For example: a stop, then a space, then no lower-case letter."""

_BEFORE, _AFTER = 1, 2  # characters that a rule sees
_N_LABELS = 5  # of MiniSBD: 0 inside a sentence, 2 at its end
_MAX_LENGTH = 100_000  # characters at once


def argos_splitter() -> bytes:
    """Return the content of the ONNX file."""
    nodes = [
        helper.make_node("Gather", ["kinds", "units"], ["x"]),
        helper.make_node("Transpose", ["x"], ["xt"], perm=[0, 2, 1]),
        helper.make_node("Conv", ["xt", "rules", "thresholds"], ["y"], pads=[_BEFORE, _AFTER]),
        helper.make_node("Relu", ["y"], ["holds"]),
        helper.make_node("Conv", ["holds", "labels", "inside"], ["zt"]),
        helper.make_node("Transpose", ["zt"], ["logits"], perm=[0, 2, 1]),
    ]
    graph = helper.make_graph(
        nodes,
        "sentence_splitter",
        [
            helper.make_tensor_value_info("units", TensorProto.INT64, ["batch", "length"]),
            helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", "length", "n"]),
        ],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "length", _N_LABELS])],
        [numpy_helper.from_array(array, name) for name, array in _weights().items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    helper.set_model_props(model, {name: json.dumps(value) for name, value in _metadata().items()})
    onnx.checker.check_model(model)
    content: bytes = model.SerializeToString()
    return content


def _weights() -> dict[str, NDArray[np.float32]]:
    rules = np.zeros((len(_RULES), _END, _BEFORE + 1 + _AFTER), np.float32)
    for i, rule in enumerate(_RULES):
        for place, kinds in rule.items():
            for kind, weight in kinds.items():
                rules[i, kind, place + _BEFORE] = weight
    # 1 if everything that must be there is, and nothing else; otherwise 0 or less.
    thresholds = 1 - rules.clip(min=0).sum((1, 2))
    labels = np.zeros((_N_LABELS, len(_RULES), 1), np.float32)
    labels[2] = 1
    inside = np.zeros(_N_LABELS, np.float32)
    inside[0] = 0.5
    kinds_of_units = np.eye(_END, dtype=np.float32)
    return {"kinds": kinds_of_units, "rules": rules, "thresholds": thresholds, "labels": labels, "inside": inside}


def _metadata() -> dict[str, object]:
    """Return what MiniSBD reads from the file: its options, and the kind of each character."""
    units = {character: kind for kind, characters in _CHARACTERS.items() for character in characters}
    lower = (chr(i) for i in range(sys.maxunicode + 1) if unicodedata.category(chr(i)) == "Ll")
    units |= dict.fromkeys(lower, _LOWER)
    names = {"<PAD>": _PAD, "<UNK>": _OTHER, **units}
    vocab = {"lang": "", "idx": 0, "cutoff": 0, "lower": False, "_unit2id": names, "_id2unit": list(names)}
    config = {"feat_funcs": ["capitalized"], "max_seqlen": _MAX_LENGTH, "batch_size": 1}
    return {"config": config, "vocab": vocab}
