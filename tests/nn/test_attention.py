"""Attention: the fused kernel, the masks and the heads against the equation, and against torch."""

import math

import pytest
import torch
from torch import Tensor, nn

import regard
from regard.nn.attention import Heads, MultiHeadAttention, SelfAttention, attend, attend_fused
from regard.nn.changes import HeadChange
from regard.nn.masks import causal_mask
from tests.nn.torch_reference import copy_attention


def rand(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize("masked", [False, True])
def test_the_fused_kernel_equals_the_equation(masked: bool) -> None:
    q, k, v = rand(2, 3, 5, 8), rand(2, 3, 7, 8), rand(2, 3, 7, 8)
    mask = (torch.rand(2, 1, 5, 7) < 0.7) | torch.eye(5, 7, dtype=torch.bool) if masked else None
    output, weights = attend(q, k, v, mask=mask)
    torch.testing.assert_close(attend_fused(q, k, v, mask), output, rtol=0, atol=1e-12)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 5, dtype=torch.float64))
    if mask is not None:
        assert (weights.masked_select(~mask) == 0).all()


def test_the_causal_kernel_equals_the_causal_mask() -> None:
    q, k, v = rand(2, 3, 6, 8), rand(2, 3, 6, 8), rand(2, 3, 6, 8)
    expected, _ = attend(q, k, v, mask=causal_mask(6, 6))
    torch.testing.assert_close(attend_fused(q, k, v, causal=True), expected, rtol=0, atol=1e-12)


def test_with_fewer_queries_than_keys_the_last_query_is_at_the_last_key() -> None:
    """As in `causal_mask`; the causal flag of torch puts the first query at the first key."""
    q, k, v = rand(2, 3, 2, 8), rand(2, 3, 6, 8), rand(2, 3, 6, 8)
    expected, _ = attend(q, k, v, mask=causal_mask(2, 6))
    torch.testing.assert_close(attend_fused(q, k, v, causal=True), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("need_trace", [False, True])
def test_heads_that_are_off_equal_zero_columns_in_the_output_matrix(need_trace: bool) -> None:
    layer, x = MultiHeadAttention(Heads(16, 4)).double(), rand(2, 5, 16)
    masked, _ = layer(
        x, layer.keys_values(x), need_trace=need_trace, change=HeadChange(torch.tensor([1.0, 0.0, 1.0, 0.0]))
    )
    assert not torch.allclose(masked, layer(x, layer.keys_values(x))[0])
    with torch.no_grad():
        layer.out.weight[:, 4:8] = 0.0
        layer.out.weight[:, 12:16] = 0.0
    torch.testing.assert_close(masked, layer(x, layer.keys_values(x))[0], rtol=0, atol=1e-12)


def test_causal_attention_equals_attention_to_a_growing_set_of_keys() -> None:
    """Step t of the lectures' slow version sees the first t keys only."""
    q, k, v = rand(5, 8), rand(5, 8), rand(5, 8)
    together, _ = attend(q, k, v, mask=causal_mask(5, 5))
    for t in range(5):
        alone, _ = attend(q[t : t + 1], k[: t + 1], v[: t + 1])
        torch.testing.assert_close(together[t : t + 1], alone, rtol=0, atol=1e-12)


def test_the_scaled_dot_product_divides_by_the_root_of_the_width() -> None:
    q, k, v = rand(4, 16), rand(6, 16), rand(6, 3)
    scaled, _ = attend(q, k, v)
    unscaled, _ = attend(q / 4, k, v, score="dot")
    torch.testing.assert_close(scaled, unscaled, rtol=0, atol=1e-12)


@pytest.mark.parametrize("need_trace", [False, True])
def test_multi_head_attention_equals_that_of_torch(need_trace: bool) -> None:
    d, h = 32, 4
    ours = MultiHeadAttention(Heads(d, h)).double()
    theirs = nn.MultiheadAttention(d, h, batch_first=True, dtype=torch.float64)
    copy_attention(ours, theirs)
    x, memory = rand(2, 5, d), rand(2, 7, d)
    mask = torch.ones(2, 7, dtype=torch.bool)
    mask[1, 4:] = False
    output, trace = ours(x, ours.keys_values(memory), mask[:, None, None], need_trace=need_trace)
    expected, their_weights = theirs(
        x, memory, memory, key_padding_mask=~mask, average_attn_weights=False, need_weights=True
    )
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-10)
    if trace:
        torch.testing.assert_close(trace.weights, their_weights, rtol=0, atol=1e-10)


def test_heads_of_any_width_follow_the_equation() -> None:
    """head_i = softmax(x W_Q (m W_K)ᵀ / √d_k) m W_V;  y = [head_1 ; head_2] W_O, with d_k = 5 and d_v = 3"""
    layer, x, memory = MultiHeadAttention(Heads(8, 2, d_head=5, d_value=3)).double(), rand(4, 8), rand(6, 8)
    q, (k, v) = layer.query(x), layer.key_value(memory).split([10, 6], dim=-1)
    heads = [
        (q[:, 5 * i : 5 * i + 5] @ k[:, 5 * i : 5 * i + 5].T / 5**0.5).softmax(-1) @ v[:, 3 * i : 3 * i + 3]
        for i in range(2)
    ]
    output, _ = layer(x[None], layer.keys_values(memory[None]))
    torch.testing.assert_close(output[0], layer.out(torch.cat(heads, dim=-1)), rtol=0, atol=1e-12)


def test_attention_is_permutation_equivariant_unless_it_is_causal() -> None:
    attention = MultiHeadAttention(Heads(16, 4)).double()
    x, order = rand(1, 6, 16), torch.randperm(6, generator=torch.Generator().manual_seed(1))

    def run(x: Tensor, causal: bool) -> Tensor:
        return attention(x, attention.keys_values(x), causal=causal)[0]

    torch.testing.assert_close(run(x[:, order], False), run(x, False)[:, order], rtol=0, atol=1e-12)
    assert not torch.allclose(run(x[:, order], True), run(x, True)[:, order])


def test_shared_keys_equal_repeated_keys() -> None:
    grouped = MultiHeadAttention(Heads(16, 4, n_kv_heads=2)).double()
    full = MultiHeadAttention(Heads(16, 4)).double()
    with torch.no_grad():
        for name in ("weight", "bias"):
            k, v = getattr(grouped.key_value, name).chunk(2)
            repeated = [part.unflatten(0, (2, 4)).repeat_interleave(2, dim=0).flatten(0, 1) for part in (k, v)]
            getattr(full.key_value, name).copy_(torch.cat(repeated))
            getattr(full.query, name).copy_(getattr(grouped.query, name))
            getattr(full.out, name).copy_(getattr(grouped.out, name))
    x = rand(2, 5, 16)
    for need_trace in (False, True):
        output, _ = grouped(x, grouped.keys_values(x), need_trace=need_trace)
        torch.testing.assert_close(output, full(x, full.keys_values(x))[0], rtol=0, atol=1e-12)
    assert grouped.keys_values(x).k.shape == (2, 2, 5, 4), "half of the cache"


@pytest.mark.parametrize("score", ["dot", "cosine", "bilinear", "additive", "location"])
def test_every_score_works_in_multi_head_attention(score: str) -> None:
    attention = SelfAttention(Heads(16, 4, score=score, max_len=9), causal=True).double()
    x = rand(2, 6, 16)
    y, trace = attention(x, need_trace=True)
    torch.testing.assert_close(attention(x)[0], y)
    assert trace is not None
    torch.testing.assert_close(trace.weights.sum(-1), torch.ones(2, 4, 6, dtype=torch.float64))
    assert (trace.weights.triu(1) == 0).all()


def test_the_dot_product_equals_a_scaled_one_with_larger_queries() -> None:
    dot = SelfAttention(Heads(16, 4, score="dot"), causal=True).double()
    scaled = SelfAttention(Heads(16, 4), causal=True).double()
    scaled.load_state_dict(dot.state_dict())
    with torch.no_grad():
        scaled.query.weight.mul_(math.sqrt(4))
        scaled.query.bias.mul_(math.sqrt(4))
    x = rand(2, 6, 16)
    torch.testing.assert_close(scaled(x)[0], dot(x)[0], rtol=0, atol=1e-12)


def test_dropout_of_the_weights_acts_in_training_only_and_keeps_the_mean() -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(Heads(16, 2, dropout=0.5)).double()
    x = torch.randn(1, 5, 16, dtype=torch.float64)
    memory = layer.keys_values(x)
    expected, _ = layer.eval()(x, memory)
    torch.testing.assert_close(layer(x, memory)[0], expected, rtol=0, atol=0)
    layer.train()
    for need_trace in (False, True):
        outputs = torch.stack([layer(x, memory, need_trace=need_trace)[0] for _ in range(2000)])
        assert outputs.std(0).min() > 0.01
        error = outputs.std(0) / len(outputs) ** 0.5
        assert ((outputs.mean(0) - expected).abs() < 5 * error).all()


def test_an_unknown_score_is_refused_with_the_known_ones() -> None:
    with pytest.raises(regard.UserError, match="scaled-dot"):
        regard.attend(rand(1, 2), rand(1, 2), rand(1, 2), score="scaled-dott")


@pytest.mark.filterwarnings("ignore")  # of the compiler
@pytest.mark.parametrize("n_key_heads", [1, 2, 4])
def test_compiled_attention_with_fewer_key_heads_equals_the_plain_one(n_key_heads: int) -> None:
    torch.compiler.reset()
    compiled = torch.compile(attend_fused, backend="eager", dynamic=True, fullgraph=True)
    for length in (3, 5):
        q, k, v = (torch.randn(2, n, length, 8) for n in (4, n_key_heads, n_key_heads))
        torch.testing.assert_close(compiled(q, k, v), attend_fused(q, k, v))
    torch.compiler.reset()


@pytest.mark.parametrize("causal", [False, True])
def test_half_precision_on_a_cpu_is_computed_in_float32(causal: bool) -> None:
    torch.manual_seed(0)
    halves = [torch.randn(2, 3, 5, 4).bfloat16().requires_grad_() for _ in range(3)]
    wholes = [x.detach().float().requires_grad_() for x in halves]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = attend_fused(*halves, causal=causal)
    expected = attend_fused(*wholes, causal=causal)
    assert output.dtype == torch.bfloat16
    torch.testing.assert_close(output, expected.bfloat16())
    output.float().sum().backward()
    expected.bfloat16().float().sum().backward()
    for half, whole in zip(halves, wholes, strict=True):
        assert half.grad is not None and whole.grad is not None
        torch.testing.assert_close(half.grad, whole.grad.bfloat16())
