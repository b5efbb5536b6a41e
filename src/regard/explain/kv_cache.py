"""The key-value cache: what it stores, what it saves, and that the outputs stay the same (S18)."""

from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any

import torch
from torch import Tensor

from regard.errors import UserError
from regard.explain.explanation import Explanation, column_numbers, matrix, max_difference, step, table
from regard.explain.formula import apply, expr, frac, power, sqrt, sub
from regard.explain.model_input import ModelInput, unique_labels
from regard.explain.number_format import format_number
from regard.models.stack import StackState
from regard.nn.attention import Heads, SelfAttention
from regard.nn.kv_cache import CacheIndex, KvCache

_WORDS = ("I", "love", "you", "too")
_NEW_OUTPUT = expr(
    sub("y", "t"),
    "=",
    apply("softmax", frac(expr(sub("q", "t"), power(sub("K", "≤t"), "T")), sqrt("d"))),
    sub("V", "≤t"),
)


@torch.no_grad()
def explain_cache() -> Explanation:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        layer, x = SelfAttention(Heads(4, 2), causal=True).double(), torch.randn(1, len(_WORDS), 4).double()
    past, index, outputs, rows = layer.start(1, x), CacheIndex.start(1, x.device), [], []
    for t in range(len(_WORDS)):
        places, index = index.read(1)
        y, past = layer.step(x[:, t : t + 1], past, places)
        recomputed = layer(x[:, : t + 1])[0][:, -1:]
        outputs.append(y)
        rows.append((1, t + 1, places.attended(past).numel(), float((y - recomputed).abs().max())))
    stepwise, at_once, n = torch.cat(outputs, 1)[0], layer(x)[0][0], len(_WORDS)
    columns = ("keys computed", "without a cache", "numbers stored", "largest difference")
    return Explanation(
        "The key-value cache: nothing is computed twice",
        (
            step("Four words, and a layer of masked self-attention; both are random.", matrix("X", x[0], _WORDS)),
            step(
                "The query of each new word attends to the stored keys and values, to which its own are added. The "
                "last column compares with the same layer run on all words so far.",
                _NEW_OUTPUT,
                table("word", columns, rows, _WORDS),
            ),
            step(
                "The outputs word by word, compared with all words at once.",
                matrix("word by word", stepwise, _WORDS, column_numbers(stepwise)),
                max_difference(stepwise, at_once),
            ),
        ),
        f"The outputs are the same up to rounding ({format_number(float((stepwise - at_once).abs().max()))}). {n} keys "
        f"were computed instead of {n * (n + 1) // 2}; 2 · {n} · {x.shape[-1]} = {rows[-1][2]} numbers are stored.",
    )


@torch.no_grad()
def explain_cache_on_model(model_input: ModelInput) -> Explanation:
    if not model_input.pipeline.generates:
        raise UserError("this model reads its text at once; a cache is for models that generate token by token")
    model, batch = model_input.model, model_input.batch
    state, log_probs_per_step, sizes = model.start(batch), [], []
    for token in batch.tgt_in[0].tolist():
        sizes.append(_n_bytes(state))
        log_probs, state = model.step(state, torch.tensor([token]))
        log_probs_per_step.append(log_probs[0])
    sizes.append(_n_bytes(state))
    stepwise, at_once = torch.stack(log_probs_per_step), model(batch)[0].log_softmax(-1)
    differences = (stepwise - at_once).abs().amax(1).tolist()
    rows = [(after, after - before, d) for before, after, d in zip(sizes[:-1], sizes[1:], differences, strict=True)]
    columns = ("bytes stored", "added", "largest difference")
    return Explanation(
        f"What the model stores, token by token: {model_input.short_text}",
        (
            step(
                "After each token: the bytes stored, those added, and how far the log-probabilities of the next token "
                "are from those of the whole sentence in one pass.",
                _NEW_OUTPUT if rows[-1][1] else None,
                table("token read", columns, rows, unique_labels(model_input.record.read_tokens)),
            ),
            step(
                "The largest difference of all steps.",
                max_difference(stepwise, at_once, "largest difference from the model's own run"),
            ),
        ),
        _describe_savings(sizes),
    )


def _describe_savings(sizes: list[int]) -> str:
    """Describe the bytes stored before the first token and after each token."""
    n_tokens = len(sizes) - 1
    if sizes[-1] == sizes[-2]:
        return f"{sizes[-1]:,} bytes are stored: the state of this model does not grow with the length of the target."
    return (
        f"{sizes[0]:,} bytes are stored for the source, and {sizes[-1] - sizes[-2]:,} more for each token. Without the "
        f"cache, {n_tokens * (n_tokens + 1) // 2} tokens would go through the decoder instead of {n_tokens}."
    )


def _n_bytes(state: Any) -> int:
    """Return the bytes that a decoder state uses; a tensor that several layers share counts once."""
    length = state.index.length if isinstance(state, StackState) else 0
    tensors = {tensor.data_ptr(): tensor for tensor in _tensors(state, length)}
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def _tensors(state: Any, length: int) -> Iterator[Tensor]:
    """Yield the tensors of a state; of a cache only the `length` positions in use, and not the index of the caches."""
    if isinstance(state, KvCache):
        yield state.entries[:, :length]
    elif isinstance(state, Tensor):
        yield state
    elif not isinstance(state, CacheIndex):
        parts = state if isinstance(state, tuple) else vars(state).values() if is_dataclass(state) else ()
        for part in parts:
            yield from _tensors(part, length)
