"""The kernels of decoding equal the equations. They need a GPU, or Triton with TRITON_INTERPRET=1."""

import pytest
import torch
import torch.nn.functional as F

from regard.nn.kv_cache import HeadShape
from tests.nn.test_kernels import DEVICE, needs_triton


@needs_triton
@pytest.mark.parametrize("n", [30, 5000])
def test_the_largest_numbers_of_each_row(n: int) -> None:
    from regard.nn.kernels.top_k import top_k

    x = torch.randn(3, n, device=DEVICE)
    x[0, 20:] = -torch.inf
    values, ids = top_k(x, 7)
    expected = x.topk(7)
    assert torch.equal(values, expected.values) and torch.equal(ids, expected.indices)
    assert torch.equal(top_k(x, 1)[1], x.argmax(1, keepdim=True))
    values, ids = top_k(x[:1, :25], 25)
    assert torch.equal(values, x[:1, :25].topk(25).values) and ids[0].sort().values.tolist() == list(range(25))


@needs_triton
@pytest.mark.parametrize("n", [30, 5000, 9000])
def test_log_sums_of_rows(n: int) -> None:
    from regard.nn.kernels.log_sum import log_sums

    x = 5 * torch.randn(3, n, device=DEVICE)
    x[0, 20:] = -torch.inf
    torch.testing.assert_close(log_sums(x), x.logsumexp(1, keepdim=True))


SHAPES = [(2, 3, 20, HeadShape(4, 2, 16, 8)), (3, 1, 70, HeadShape(4, 4, 8, 8))]


@needs_triton
@pytest.mark.parametrize(("groups", "w", "room", "shape"), SHAPES)
def test_attention_to_the_ancestors_in_a_cache(groups: int, w: int, room: int, shape: HeadShape) -> None:
    """Each hypothesis sees its own past among the entries of its sentence, and its new token."""
    from regard.nn.kernels.cached_attention import attend_cached

    rows, columns = groups * w, shape.n_kv_heads * (shape.d_key + shape.d_value)
    entries, new = torch.randn(groups, room, w, columns, device=DEVICE), torch.randn(rows, 1, columns, device=DEVICE)
    q = torch.randn(rows, 1, shape.n_heads * shape.d_key, device=DEVICE)
    positions = torch.randint(3, room - 1, (groups, 1), device=DEVICE).repeat_interleave(w, dim=0)
    slots = torch.arange(rows, device=DEVICE) % w
    ancestors = torch.randint(0, w, (rows, room), device=DEVICE)
    ancestors = torch.where(torch.arange(room, device=DEVICE) < positions, ancestors, -1)
    ancestors = ancestors.scatter(1, positions, slots[:, None])
    out = attend_cached(q, new, entries, ancestors.view(groups, w, room), positions, room, shape)
    for row in range(rows):
        group, slot, n = row // w, row % w, int(positions[row]) + 1
        assert torch.equal(entries[group, n - 1, slot], new[row, 0]), "the new entry is in the cache"
        kv = entries[group, torch.arange(n, device=DEVICE), ancestors[row, :n]]
        k, v = kv.split([shape.n_kv_heads * shape.d_key, shape.n_kv_heads * shape.d_value], dim=-1)
        k, v = (x.view(n, shape.n_kv_heads, -1).transpose(0, 1) for x in (k, v))
        query = q[row].view(shape.n_heads, 1, shape.d_key)
        expected = F.scaled_dot_product_attention(query, k, v, enable_gqa=True)
        torch.testing.assert_close(out[row, 0], expected.flatten(), rtol=1e-4, atol=1e-5)


@needs_triton
@pytest.mark.parametrize(("n", "k", "length", "shape"), SHAPES)
def test_attention_of_hypotheses_to_one_source(n: int, k: int, length: int, shape: HeadShape) -> None:
    from regard.nn.kernels.cached_attention import attend_source

    q = torch.randn(n * k, 1, shape.n_heads * shape.d_key, device=DEVICE)
    keys = torch.randn(n, length, shape.n_kv_heads, shape.d_key, device=DEVICE).transpose(1, 2)
    values = torch.randn(n, shape.n_kv_heads, length, shape.d_value, device=DEVICE)
    mask = torch.zeros(n, 1, 1, length, device=DEVICE)
    mask[0, ..., 9:] = -torch.inf
    queries = q.view(n, k, shape.n_heads, shape.d_key).transpose(1, 2)
    expected = F.scaled_dot_product_attention(queries, keys, values, mask, enable_gqa=True)
    out = attend_source(q, keys, values, mask, shape)
    torch.testing.assert_close(out.view(n, k, -1), expected.transpose(1, 2).flatten(2), rtol=1e-4, atol=1e-5)
