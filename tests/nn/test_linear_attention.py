"""Linear attention: all its forms against the definition, computed in quadratic time."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.nn.linear_attention import (
    FEATURE_MAPS,
    LinearState,
    add_to_state,
    causal_linear_attention,
    empty_state,
    linear_attention,
    linear_weights,
    read_state,
)

LENGTHS = pytest.mark.parametrize("length", [1, 7, 64, 65, 130])
NORMALISE = pytest.mark.parametrize("normalise", [False, True])
FEATURE = pytest.mark.parametrize("feature", ["identity", "elu"])
PHI = {"identity": lambda x: x, "elu": lambda x: F.elu(x) + 1}


def rand(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def qkv(queries: int, keys: int, feature: str) -> tuple[Tensor, Tensor, Tensor]:
    """Random φ(q), φ(k) and v for two rows and three heads.

    For the identity all numbers are positive: weights of both signs could sum to almost zero, which is divided by.
    """
    torch.manual_seed(queries + keys)
    q, k = rand(2, 3, queries, 4), rand(2, 3, keys, 4)
    if feature == "identity":
        q, k = q.abs() + 0.1, k.abs() + 0.1
    return FEATURE_MAPS[feature](q), FEATURE_MAPS[feature](k), rand(2, 3, keys, 5)


def quadratic_attention(q: Tensor, k: Tensor, v: Tensor, normalise: bool, mask: Tensor) -> tuple[Tensor, Tensor]:
    """y_t = Σ_i w_ti v_i and the weights w, computed directly"""
    weights = torch.einsum("bhtk,bhik->bhti", q, k) * mask
    if normalise:
        weights = weights / weights.sum(-1, keepdim=True)
    return torch.einsum("bhti,bhid->bhtd", weights, v), weights


def causal_mask(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool).tril()


def assert_close(got: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-10)


@FEATURE
def test_feature_maps_and_their_gradients(feature: str) -> None:
    x = torch.cat([rand(100) * 3, torch.zeros(1, dtype=torch.float64)]).requires_grad_()
    got, expected = FEATURE_MAPS[feature](x), PHI[feature](x)
    assert_close(got, expected)
    assert_close(*(torch.autograd.grad(y.square().sum(), x)[0] for y in (got, expected)))


@LENGTHS
@NORMALISE
@FEATURE
@pytest.mark.parametrize("masked", [False, True])
def test_linear_attention_equals_the_definition(length: int, normalise: bool, feature: str, masked: bool) -> None:
    q, k, v = qkv(9, length, feature)
    mask = (torch.rand(2, 1, 1, length) < 0.7) | (torch.arange(length) == length // 2) if masked else None
    expected, weights = quadratic_attention(q, k, v, normalise, torch.ones(1) if mask is None else mask)
    assert_close(linear_attention(q, k, v, normalise, mask), expected)
    assert_close(linear_weights(q, k, normalise, mask), weights)
    assert_close(linear_weights(q, k, normalise, mask) @ v, expected)


@LENGTHS
@NORMALISE
@FEATURE
def test_causal_linear_attention_equals_the_definition(length: int, normalise: bool, feature: str) -> None:
    q, k, v = qkv(length, length, feature)
    expected, weights = quadratic_attention(q, k, v, normalise, causal_mask(length))
    assert_close(causal_linear_attention(q, k, v, normalise), expected)
    assert_close(linear_weights(q, k, normalise, causal_mask(length)), weights)


@NORMALISE
@FEATURE
def test_recurrent_steps_equal_the_causal_form(normalise: bool, feature: str) -> None:
    q, k, v = qkv(70, 70, feature)
    state, outputs = empty_state(2, 3, 4, 5, v), []
    for t in range(70):
        state = add_to_state(state, k[:, :, t : t + 1], v[:, :, t : t + 1])
        assert [tuple(part.shape) for part in state] == [(2, 3, 4, 5), (2, 3, 4)]
        outputs.append(read_state(state, q[:, :, t : t + 1], normalise))
    assert_close(torch.cat(outputs, dim=2), causal_linear_attention(q, k, v, normalise))


def test_adding_keys_in_two_parts_equals_adding_them_at_once() -> None:
    _, k, v = qkv(1, 12, "elu")
    start = empty_state(2, 3, 4, 5, v)
    twice = add_to_state(add_to_state(start, k[:, :, :5], v[:, :, :5]), k[:, :, 5:], v[:, :, 5:])
    for got, expected in zip(twice, add_to_state(start, k, v), strict=True):
        assert_close(got, expected)


@NORMALISE
@pytest.mark.parametrize("is_causal", [False, True])
def test_gradients_equal_those_of_the_definition(normalise: bool, is_causal: bool) -> None:
    inputs = [x.requires_grad_() for x in qkv(70, 70, "elu")]
    mask = (
        causal_mask(70)
        if is_causal
        else torch.arange(70).expand(2, 1, 1, 70) < torch.tensor([70, 41])[:, None, None, None]
    )
    expected, _ = quadratic_attention(*inputs, normalise, mask)
    got = causal_linear_attention(*inputs, normalise) if is_causal else linear_attention(*inputs, normalise, mask)
    weight = rand(*got.shape)  # different for every output, so that no gradient cancels
    pairs = zip(*(torch.autograd.grad((y * weight).sum(), inputs) for y in (got, expected)), strict=True)
    for ours, theirs in pairs:
        assert_close(ours, theirs)


@NORMALISE
def test_a_row_alone_equals_the_row_in_a_batch(normalise: bool) -> None:
    q, k, v = qkv(70, 70, "elu")
    for form in (linear_attention, causal_linear_attention):
        alone = [form(q[i : i + 1], k[i : i + 1], v[i : i + 1], normalise) for i in range(2)]
        assert_close(torch.cat(alone), form(q, k, v, normalise))


def test_masked_keys_have_no_effect() -> None:
    q, k, v = qkv(4, 9, "elu")
    mask = (torch.arange(9) < 6).expand(2, 1, 1, 9)
    assert_close(linear_attention(q, k, v, True, mask), linear_attention(q, k[:, :, :6], v[:, :, :6], True))


def test_without_any_key_the_output_is_zero_and_gradients_are_finite() -> None:
    inputs = [x.requires_grad_() for x in qkv(4, 9, "elu")]
    mask = torch.zeros(2, 1, 1, 9, dtype=torch.bool)
    output = linear_attention(*inputs, True, mask)
    assert torch.equal(output, torch.zeros_like(output))
    assert torch.equal(linear_weights(*inputs[:2], True, mask), torch.zeros(2, 3, 4, 9, dtype=torch.float64))
    assert all(g.isfinite().all() for g in torch.autograd.grad(output.sum(), inputs))


def test_selected_rows_continue_as_before() -> None:
    q, k, v = qkv(8, 8, "elu")
    rows = torch.tensor([1, 0, 1])
    state = add_to_state(empty_state(2, 3, 4, 5, v), k[:, :, :7], v[:, :, :7]).select(rows)
    state = add_to_state(state, k[rows, :, 7:], v[rows, :, 7:])
    assert isinstance(state, LinearState)
    assert_close(read_state(state, q[rows, :, 7:], True), causal_linear_attention(q, k, v, True)[rows, :, 7:])


def test_sums_of_bf16_are_kept_in_float32() -> None:
    q, k, v = (x.bfloat16() for x in qkv(400, 400, "elu"))
    state = empty_state(2, 3, 4, 5, v)
    for t in range(400):
        state = add_to_state(state, k[:, :, t : t + 1], v[:, :, t : t + 1])
    expected, _ = quadratic_attention(q.double(), k.double(), v.double(), True, causal_mask(400))
    assert state.kv.dtype == state.k.dtype == torch.float32
    at_once, last = causal_linear_attention(q, k, v, True), read_state(state, q[:, :, -1:], True)
    assert at_once.dtype == last.dtype == torch.bfloat16
    torch.testing.assert_close(last.double(), expected[:, :, -1:], rtol=0, atol=5e-3)
    torch.testing.assert_close(at_once.double(), expected, rtol=0, atol=5e-2)


def test_one_compiled_graph_for_one_chunk_and_one_for_several() -> None:
    graphs = 0

    def backend(graph: torch.fx.GraphModule, _: object) -> object:
        nonlocal graphs
        graphs += 1
        return graph.forward

    compiled = torch.compile(causal_linear_attention, backend=backend, dynamic=True, fullgraph=True)
    for length in (20, 41, 130, 300):
        q, k, v = qkv(length, length, "elu")
        assert_close(compiled(q, k, v, True), causal_linear_attention(q, k, v, True))
    assert graphs == 2
