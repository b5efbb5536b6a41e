"""The operations of stages in numpy, written from their formulas (docs/serve.md)."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.models.stages.stage import BlockRecord, BlockStage

Array = NDArray[Any]
Arrays = list[Array]
Named = Mapping[str, Array]
Settings = Mapping[str, Any]


def recompute(record: BlockRecord, stage: BlockStage) -> Array | None:
    """Compute the output of a stage from its inputs and weights; None if it is given."""
    if stage.op == "given":
        return None
    inputs = [record.values[name].tensor.numpy() for name in stage.inputs]
    weights = {name.removeprefix(f"{stage.name}."): record.values[name].tensor.numpy() for name in stage.weights}
    return OPS[stage.op](inputs, weights, stage.settings)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def log_softmax(x: Array) -> Array:
    shifted = x - x.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x * sigmoid(x),
    "tanh": np.tanh,
    "sigmoid": sigmoid,
    "gelu": lambda x: x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    "gelu-tanh": lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}


def linear(x: Arrays, w: Named, s: Settings) -> Array:
    return x[0] @ w["weight"].T + w.get("bias", np.zeros(1))


def layer_norm(x: Arrays, w: Named, s: Settings) -> Array:
    centred = x[0] - x[0].mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + s["eps"]) * w["weight"] + w["bias"]


def rms_norm(x: Arrays, w: Named, s: Settings) -> Array:
    return x[0] / np.sqrt((x[0] ** 2).mean(-1, keepdims=True) + s["eps"]) * w["weight"]


def shift(x: Arrays, w: Named, s: Settings) -> Array:
    first = x[1] if len(x) > 1 else np.zeros_like(x[0][0])
    return np.concatenate([first[None], x[0][:-1]])


def window(x: Arrays, w: Named, s: Settings) -> Array:
    n = s["window"]
    padded = np.concatenate([np.zeros((n - 1, x[0].shape[1])), x[0]])
    return np.stack([padded[t : t + n].ravel() for t in range(len(x[0]))])


def split_heads(x: Arrays, w: Named, s: Settings) -> Array:
    heads = x[0].reshape(len(x[0]), s["heads"], -1).transpose(1, 0, 2)
    return np.repeat(heads, s["repeat"], axis=0)


def rotate(x: Arrays, w: Named, s: Settings) -> Array:
    left, right = np.split(x[0], 2, axis=-1)
    cos, sin = x[1], x[2]
    return np.concatenate([left * cos - right * sin, right * cos + left * sin], axis=-1)


def feature_map(x: Arrays, w: Named, s: Settings) -> Array:
    z = x[0] * s["scale"]
    return z if s["feature"] == "identity" else np.where(z > 0, z + 1, np.exp(np.minimum(z, 0)))


def score(x: Arrays, w: Named, s: Settings) -> Array:
    q, k = x
    n = k.shape[-2]
    match s["score"]:
        case "dot" | "scaled-dot":
            return q @ k.swapaxes(-1, -2) * s["scale"]
        case "cosine":
            q, k = (v / np.linalg.norm(v, axis=-1, keepdims=True) for v in (q, k))
            return q @ k.swapaxes(-1, -2)
        case "bilinear":
            return q @ (k @ w["weight"].T).swapaxes(-1, -2)
        case "additive":
            both = (q @ w["query.weight"].T + w["query.bias"])[..., :, None, :] + (k @ w["key.weight"].T)[
                ..., None, :, :
            ]
            return (np.tanh(both) @ w["out.weight"].T)[..., 0]
        case "location":
            return (q @ w["weight"].T + w["bias"])[..., :n]
    assert s["score"] == "location-log-softmax"
    return log_softmax(q @ w["weight"].T + w["bias"])[..., :n]


def normalise(x: Arrays, w: Named, s: Settings) -> Array:
    scores, mask = x[0], x[1].astype(bool)
    hidden = np.where(mask, scores, -np.inf)
    match s["normalise"]:
        case "softmax":
            return softmax(hidden)
        case "hardmax":
            return np.eye(hidden.shape[-1])[hidden.argmax(-1)]
        case "exp":
            return np.exp(hidden)
        case "none":
            return np.where(mask, scores, 0)
    assert s["normalise"] == "sum"
    total = np.where(mask, scores, 0).sum(-1, keepdims=True)
    return np.where(mask, scores, 0) / np.where(total == 0, 1, total)


def local_centre(x: Arrays, w: Named, s: Settings) -> Array:
    return (s["length"] - 1) * sigmoid(np.tanh(x[0] @ w["weight"].T) @ w["out"].T)


def local_log_weights(x: Arrays, w: Named, s: Settings) -> Array:
    scores, centre, mask = x
    total = np.log(np.where(mask, np.exp(scores), 0).sum(-1, keepdims=True))
    offsets = np.arange(scores.shape[-1]) - centre
    return scores - total - offsets**2 / (2 * (s["reach"] / 2) ** 2)


def gate(x: Arrays, w: Named, s: Settings) -> Array:
    part = slice(s["start"], s["end"])
    return ACTIVATIONS[s["activation"]](x[0][:, part] + x[1][:, part])


def gru_candidate(x: Arrays, w: Named, s: Settings) -> Array:
    part = slice(s["start"], s["end"])
    return np.tanh(x[0][:, part] + x[2] * x[1][:, part])


def causal_convolution(x: Arrays, w: Named, s: Settings) -> Array:
    width = w["weight"].shape[1]
    padded = np.concatenate([np.zeros((width - 1, x[0].shape[1])), x[0]])
    total = w["bias"] + sum(padded[i : i + len(x[0])] * w["weight"][:, i] for i in range(width))
    return ACTIVATIONS[s["activation"]](total)


def scan(x: Arrays, w: Named, s: Settings) -> Array:
    delta, b, inputs = x
    h, states = np.zeros_like(w["a_log"]), []
    for t in range(len(delta)):
        h = np.exp(-delta[t][:, None] * np.exp(w["a_log"])) * h + (delta[t] * inputs[t])[:, None] * b[t]
        states.append(h)
    return np.stack(states)


def last_states(x: Arrays, w: Named, s: Settings) -> Array:
    last = x[0][int(x[1].sum()) - 1]
    half = len(last) // 2
    return (np.concatenate([last[:half], x[0][0][half:]]) if s["bidirectional"] else last)[None]


def patches(x: Arrays, w: Named, s: Settings) -> Array:
    n = s["side"]
    colours, height, width = x[0].shape
    tiles = x[0].reshape(colours, height // n, n, width // n, n).transpose(1, 3, 0, 2, 4)
    return tiles.reshape(-1, colours * n * n)


def convolution_2d(x: Arrays, w: Named, s: Settings) -> Array:
    pad, stride, kernel = s["padding"], s["stride"], w["weight"].shape[-1]
    padded = np.pad(x[0], ((0, 0), (pad, pad), (pad, pad)))
    views = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), axis=(1, 2))[:, ::stride, ::stride]
    return np.einsum("chwij,ocij->ohw", views, w["weight"]) + w["bias"][:, None, None]


OPS: dict[str, Callable[[Arrays, Named, Settings], Array]] = {
    "lookup": lambda x, w, s: w["table"][x[0].astype(int)],
    "scale": lambda x, w, s: x[0] * s["factor"],
    "add": lambda x, w, s: x[0] + x[1],
    "multiply": lambda x, w, s: x[0] * x[1],
    "concatenate": lambda x, w, s: np.concatenate(x, axis=-1),
    "columns": lambda x, w, s: x[0][:, s["start"] : s["end"]],
    "reverse": lambda x, w, s: x[0][::-1],
    "shift": shift,
    "window": window,
    "linear": linear,
    "layer-norm": layer_norm,
    "rms-norm": rms_norm,
    "activation": lambda x, w, s: ACTIVATIONS[s["activation"]](x[0]),
    "split-heads": split_heads,
    "join-heads": lambda x, w, s: x[0].transpose(1, 0, 2).reshape(x[0].shape[1], -1),
    "rotate": rotate,
    "feature-map": feature_map,
    "score": score,
    "local-centre": local_centre,
    "local-log-weights": local_log_weights,
    "normalise": normalise,
    "weighted-sum": lambda x, w, s: x[0] @ x[1],
    "swiglu": lambda x, w, s: ACTIVATIONS["silu"](np.split(x[0], 2, -1)[0]) * np.split(x[0], 2, -1)[1],
    "mean": lambda x, w, s: x[0][x[1].astype(bool)].mean(0)[None],
    "last-states": last_states,
    "gate": gate,
    "gru-candidate": gru_candidate,
    "gru-state": lambda x, w, s: (1 - x[0]) * x[1] + x[0] * x[2],
    "lstm-cell": lambda x, w, s: x[0] * x[1] + x[2] * x[3],
    "lstm-state": lambda x, w, s: x[0] * np.tanh(x[1]),
    "causal-convolution": causal_convolution,
    "softplus": lambda x, w, s: np.log1p(np.exp(x[0] + w["bias"])),
    "scan": scan,
    "read-state": lambda x, w, s: (x[0] * x[1][:, None]).sum(-1) + w["skip"] * x[2],
    "convolution-2d": convolution_2d,
    "patches": patches,
    "regions": lambda x, w, s: x[0].reshape(len(x[0]), -1).T,
    "log-softmax": lambda x, w, s: log_softmax(x[0]),
}
