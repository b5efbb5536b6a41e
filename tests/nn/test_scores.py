"""Scores, normalisers and positions: each against its equation."""

import math

import pytest
import torch
from torch import Tensor

import regard
from regard.nn.attention import Heads, MultiHeadAttention, SelfAttention, attend, attend_fused
from regard.nn.masks import causal_mask
from regard.nn.positions import alibi, rotate
from regard.nn.scores import Additive, Bilinear, Cosine, Location


def rand(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def by_hand(q: Tensor, k: Tensor, e: object) -> Tensor:
    return torch.tensor([[e(a, b).item() for b in k] for a in q], dtype=torch.float64)  # type: ignore[operator]


def test_cosine() -> None:
    q, k = rand(3, 5), rand(4, 5)
    expected = by_hand(q, k, lambda a, b: a @ b / (a.norm() * b.norm()))
    torch.testing.assert_close(Cosine()(q, k), expected)


def test_bilinear_has_queries_and_keys_of_other_widths() -> None:
    score = Bilinear(5, 3).double()
    q, k = rand(2, 5), rand(4, 3)
    torch.testing.assert_close(score(q, k), by_hand(q, k, lambda a, b: a @ score.weight.weight @ b))


def test_additive() -> None:
    score = Additive(5, 3).double()
    q, k = rand(2, 5), rand(4, 3)
    expected = by_hand(q, k, lambda a, b: score.out.weight[0] @ (score.query(a) + score.key(b)).tanh())
    torch.testing.assert_close(score(q, k), expected)


def test_location_is_linear_in_the_query_and_blind_to_the_keys() -> None:
    score = Location(5, max_len=6).double()
    q, k = rand(2, 5), rand(4, 3)
    torch.testing.assert_close(score(q, k), (q @ score.position_scores.weight.T + score.position_scores.bias)[:, :4])
    torch.testing.assert_close(score(q, k), score(q, rand(4, 3)))
    with pytest.raises(regard.UserError, match="6 positions, the source has 7"):
        score(q, rand(7, 3))


def test_scores_with_weights_are_passed_and_not_named() -> None:
    q, k, v = rand(2, 5), rand(4, 3), rand(4, 6)
    with pytest.raises(regard.UserError, match="Bilinear"):
        regard.attend(q, k, v, score="bilinear")
    assert regard.attend(q, k, v, score=Bilinear(5, 3).double())[0].shape == (2, 6)


def test_normalisers() -> None:
    q, k, v = rand(2, 4).abs(), rand(3, 4).abs(), rand(3, 2)
    e = q @ k.T
    mask = torch.tensor([[True, True, False], [True, True, True]])
    for name, expected in (
        ("softmax", torch.where(mask, e.exp(), 0) / torch.where(mask, e.exp(), 0).sum(-1, keepdim=True)),
        ("sum", torch.where(mask, e, 0) / torch.where(mask, e, 0).sum(-1, keepdim=True)),
        ("none", torch.where(mask, e, 0)),
    ):
        output, weights = attend(q, k, v, score="dot", mask=mask, normalise=name)
        torch.testing.assert_close(weights, expected)
        torch.testing.assert_close(output, expected @ v)
    with pytest.raises(regard.UserError, match="softmax, sum, none"):
        attend(q, k, v, normalise="sumn")


def test_rotated_products_depend_on_the_distance_alone() -> None:
    q, k = rand(1, 8), rand(1, 8)

    def product(i: int, j: int) -> float:
        return float(rotate(q, i) @ rotate(k, j).T)

    assert product(3, 1) == pytest.approx(product(12, 10), abs=1e-12)
    assert product(3, 1) != pytest.approx(product(4, 1), abs=1e-6)
    x = rand(6, 8)
    torch.testing.assert_close(rotate(x).norm(dim=-1), x.norm(dim=-1), msg="a rotation keeps lengths")
    torch.testing.assert_close(rotate(x)[4:], rotate(x[4:], start=4), rtol=0, atol=1e-12)


def test_alibi_is_the_papers_bias() -> None:
    bias = alibi(8, 2, 5, rand(1))
    assert bias.shape == (8, 2, 5)
    for head in range(8):
        slope = 2.0 ** -(head + 1)
        assert bias[head, 1].tolist() == [-slope * (4 - j) for j in range(5)]
    q, k, v = rand(2, 8, 2, 4), rand(2, 8, 5, 4), rand(2, 8, 5, 4)
    expected, _ = attend(q, k, v, bias=bias, mask=causal_mask(2, 5))
    torch.testing.assert_close(attend_fused(q, k, v, causal_mask(2, 5), bias=bias), expected, rtol=0, atol=1e-12)


def test_shared_keys_are_repeated_keys() -> None:
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
        got, _ = grouped(x, grouped.keys_values(x), need_trace=need_trace)
        torch.testing.assert_close(got, full(x, full.keys_values(x))[0], rtol=0, atol=1e-12)
    assert grouped.keys_values(x).k.shape == (2, 2, 5, 4), "half of the cache"


@pytest.mark.parametrize("score", ["dot", "cosine", "bilinear", "additive", "location"])
def test_any_score_works_in_heads_and_plain_dot_is_a_scaled_one(score: str) -> None:
    attention = SelfAttention(Heads(16, 4, score=score, max_len=9), causal=True).double()
    x = rand(2, 6, 16)
    y, trace = attention(x, need_trace=True)
    torch.testing.assert_close(attention(x)[0], y)
    assert trace is not None
    weights = trace.weights
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 6, dtype=torch.float64))
    assert (weights.triu(1) == 0).all()
    if score == "dot":
        scaled = SelfAttention(Heads(16, 4), causal=True).double()
        scaled.load_state_dict(attention.state_dict())
        with torch.no_grad():
            scaled.query.weight.mul_(math.sqrt(4))
            scaled.query.bias.mul_(math.sqrt(4))
        torch.testing.assert_close(scaled(x)[0], y, rtol=0, atol=1e-12)
