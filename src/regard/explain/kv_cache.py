"""The key-value cache: what is stored, what is saved, and that nothing changes (S18)."""

from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

from regard.errors import UserError
from regard.explain.explanation import Explanation, difference, listing, matrix, numbered, step
from regard.explain.formula import frac, math, of, power, root, sub
from regard.explain.model_input import ModelInput, unique_labels
from regard.explain.number_format import number
from regard.nn.attention import Heads, SelfAttention

_WORDS = ("I", "love", "you", "too")
_NEW = math(
    sub("y", "t"),
    "=",
    of("softmax", frac(math(sub("q", "t"), power(sub("K", "≤t"), "T")), root("d"))),
    sub("V", "≤t"),
)


@torch.no_grad()
def cache() -> Explanation:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        layer, x = SelfAttention(Heads(4, 2), causal=True).double(), torch.randn(1, len(_WORDS), 4).double()
    past, outputs, rows = layer.start(1, x), [], []
    for t in range(len(_WORDS)):
        y, past = layer.step(x[:, t : t + 1], past)
        again = layer(x[:, : t + 1])[0][:, -1:]
        outputs.append(y)
        rows.append((1, t + 1, past.k.numel() + past.v.numel(), float((y - again).abs().max())))
    cached, whole, n = torch.cat(outputs, 1)[0], layer(x)[0][0], len(_WORDS)
    columns = ("keys made", "made without cache", "numbers stored", "largest difference")
    return Explanation(
        "Keys and values are kept: each new word asks, and nothing is computed twice",
        (
            step("Four words, and a layer of masked attention; both drawn at random.", None, matrix("X", x[0], _WORDS)),
            step(
                "The new word's query meets the stored keys and values, to which its own are added. The difference is "
                "to the same layer run on all words so far.",
                _NEW,
                listing("word", columns, rows, _WORDS),
            ),
            step(
                "What comes out word by word, against all words at once.",
                None,
                matrix("word by word", cached, _WORDS, numbered(cached)),
                difference(cached, whole),
            ),
        ),
        f"The outputs are the same up to rounding ({number(float((cached - whole).abs().max()))}). {n} keys were made "
        f"in place of {n * (n + 1) // 2}; stored are 2 · {n} · {x.shape[-1]} = {rows[-1][2]} numbers.",
    )


@torch.no_grad()
def cache_of_own(own: ModelInput) -> Explanation:
    if not hasattr(own.model, "step"):
        raise UserError("this model reads its text at once; a cache is for models that write token by token")
    read = own.batch.tgt_in[0].tolist()
    state, found, sizes = own.model.start(own.batch), [], []
    for token in read:
        sizes.append(_size(state))
        log_probs, state = own.model.step(state, torch.tensor([token]))
        found.append(log_probs[0])
    sizes.append(_size(state))
    cached, whole = torch.stack(found), own.model(own.batch)[0].log_softmax(-1)
    gaps = (cached - whole).abs().amax(1).tolist()
    rows = [(after, after - before, gap) for before, after, gap in zip(sizes[:-1], sizes[1:], gaps, strict=True)]
    columns = ("bytes kept", "added", "largest difference")
    return Explanation(
        f"What the model keeps, token by token: {own.quoted_text}",
        (
            step(
                "After each token read: the bytes kept, those added, and how far the log-probabilities of the next "
                "token lie from those of the whole sentence at once.",
                _NEW if rows[-1][1] else None,
                listing("token read", columns, rows, unique_labels(own.record.read_tokens)),
            ),
            step("All steps together.", None, difference(cached, whole, "largest difference from the model's own run")),
        ),
        _saved(sizes, len(read)),
    )


def _saved(sizes: list[int], n: int) -> str:
    if sizes[-1] == sizes[-2]:
        return f"{sizes[-1]:,} bytes are kept, however long the target grows: the state of this model does not grow."
    return (
        f"{sizes[0]:,} bytes are kept of the source, {sizes[-1] - sizes[-2]:,} more with "
        f"each token. Without them {n * (n + 1) // 2} tokens would go through the decoder in place of {n}."
    )


def _size(state: Any) -> int:
    """Bytes of all tensors in a state"""
    if isinstance(state, Tensor):
        return state.numel() * state.element_size()
    if isinstance(state, tuple):
        return sum(_size(part) for part in state)
    if is_dataclass(state):
        return sum(_size(getattr(state, field.name)) for field in fields(state))
    return 0
