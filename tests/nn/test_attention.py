import pytest
import torch
from torch import nn

import regard
from regard.nn.attention import Heads, MultiHeadAttention, attend, attend_fused
from regard.nn.masks import causal_mask


def rand(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize("masked", [False, True])
def test_fused_form_equals_the_equation(masked: bool) -> None:
    q, k, v = rand(2, 3, 5, 8), rand(2, 3, 7, 8), rand(2, 3, 7, 8)
    mask = (torch.rand(2, 1, 5, 7) < 0.7) | torch.eye(5, 7, dtype=torch.bool) if masked else None
    output, weights = attend(q, k, v, mask=mask)
    torch.testing.assert_close(attend_fused(q, k, v, mask), output, rtol=0, atol=1e-12)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 5, dtype=torch.float64))
    if mask is not None:
        assert (weights.masked_select(~mask) == 0).all()


def test_fused_causal_equals_the_causal_mask() -> None:
    q, k, v = rand(2, 3, 6, 8), rand(2, 3, 6, 8), rand(2, 3, 6, 8)
    expected, _ = attend(q, k, v, mask=causal_mask(6, 6))
    torch.testing.assert_close(attend_fused(q, k, v, causal=True), expected, rtol=0, atol=1e-12)


def test_fused_causal_with_fewer_queries_than_keys_aligns_the_last_ones() -> None:
    """The last query belongs to the last key, as in `causal_mask`; torch's own flag aligns the first ones."""
    q, k, v = rand(2, 3, 2, 8), rand(2, 3, 6, 8), rand(2, 3, 6, 8)
    expected, _ = attend(q, k, v, mask=causal_mask(2, 6))
    torch.testing.assert_close(attend_fused(q, k, v, causal=True), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("need_trace", [False, True])
def test_a_head_mask_is_zero_columns_of_the_output_matrix(need_trace: bool) -> None:
    layer, x = MultiHeadAttention(Heads(16, 4)).double(), rand(2, 5, 16)
    masked, _ = layer(x, layer.keys_values(x), need_trace=need_trace, head_mask=torch.tensor([1.0, 0.0, 1.0, 0.0]))
    assert not torch.allclose(masked, layer(x, layer.keys_values(x))[0])
    with torch.no_grad():
        layer.out.weight[:, 4:8] = 0.0
        layer.out.weight[:, 12:16] = 0.0
    torch.testing.assert_close(masked, layer(x, layer.keys_values(x))[0], rtol=0, atol=1e-12)


def test_masked_attention_equals_a_growing_key_set() -> None:
    """The inefficient reference of the lectures: step t sees the first t keys alone."""
    q, k, v = rand(5, 8), rand(5, 8), rand(5, 8)
    together, _ = attend(q, k, v, mask=causal_mask(5, 5))
    for t in range(5):
        alone, _ = attend(q[t : t + 1], k[: t + 1], v[: t + 1])
        torch.testing.assert_close(together[t : t + 1], alone, rtol=0, atol=1e-12)


def test_scaled_dot_is_dot_divided_by_the_root_of_the_width() -> None:
    q, k, v = rand(4, 16), rand(6, 16), rand(6, 3)
    scaled, _ = attend(q, k, v)
    plain, _ = attend(q / 4, k, v, score="dot")
    torch.testing.assert_close(scaled, plain, rtol=0, atol=1e-12)


def test_unknown_score_names_the_known_ones() -> None:
    with pytest.raises(regard.UserError, match="scaled-dot"):
        regard.attend(rand(1, 2), rand(1, 2), rand(1, 2), score="scaled-dott")


@pytest.mark.parametrize("need_trace", [False, True])
def test_equals_torch_multihead_attention(need_trace: bool) -> None:
    d, h = 32, 4
    ours = MultiHeadAttention(Heads(d, h)).double()
    theirs = nn.MultiheadAttention(d, h, batch_first=True, dtype=torch.float64)
    copy_attention(ours, theirs)
    x, memory = rand(2, 5, d), rand(2, 7, d)
    mask = torch.ones(2, 7, dtype=torch.bool)
    mask[1, 4:] = False
    got, trace = ours(x, ours.keys_values(memory), mask[:, None, None], need_trace=need_trace)
    expected, their_weights = theirs(
        x, memory, memory, key_padding_mask=~mask, average_attn_weights=False, need_weights=True
    )
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)
    if trace:
        torch.testing.assert_close(trace.weights, their_weights, rtol=0, atol=1e-10)


def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key_value.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key_value.bias]))
        theirs.out_proj.weight.copy_(ours.out.weight)
        theirs.out_proj.bias.copy_(ours.out.bias)


def test_permutation_equivariance_without_positions_and_its_loss_under_a_mask() -> None:
    attention = MultiHeadAttention(Heads(16, 4)).double()
    x, order = rand(1, 6, 16), torch.randperm(6, generator=torch.Generator().manual_seed(1))

    def run(x: torch.Tensor, causal: bool) -> torch.Tensor:
        return attention(x, attention.keys_values(x), causal=causal)[0]

    torch.testing.assert_close(run(x[:, order], False), run(x, False)[:, order], rtol=0, atol=1e-12)
    assert not torch.allclose(run(x[:, order], True), run(x, True)[:, order])


def test_dropout_of_the_weights_is_of_training_alone_and_right_on_average() -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(Heads(16, 2, dropout=0.5)).double()
    x = torch.randn(1, 5, 16, dtype=torch.float64)
    memory = layer.keys_values(x)
    expected, _ = layer.eval()(x, memory)
    torch.testing.assert_close(layer(x, memory)[0], expected, rtol=0, atol=0)
    layer.train()
    for need_trace in (False, True):
        draws = torch.stack([layer(x, memory, need_trace=need_trace)[0] for _ in range(2000)])
        assert draws.std(0).min() > 0.01
        error = draws.std(0) / len(draws) ** 0.5
        assert ((draws.mean(0) - expected).abs() < 5 * error).all()
