"""The k largest numbers of each row, for a small k and long rows."""

import torch
import triton
import triton.language as tl
from torch import Tensor

_CHUNK = 2048


@triton.jit
def _top_k_kernel(
    x, ids, values_out, ids_out, n, k, row_stride, out_stride, CHUNK: tl.constexpr, HAS_IDS: tl.constexpr
):
    """One program per row and chunk: write the k largest numbers of the chunk, largest first."""
    row, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    columns = chunk * CHUNK + tl.arange(0, CHUNK)
    inside = columns < n
    values = tl.load(x + row * row_stride + columns, mask=inside, other=-float("inf"))
    # NaN counts as the largest number, as in torch.
    values = tl.where(values == values, values, float("inf"))
    taken = ~inside
    for i in range(k):
        left = tl.where(taken, -float("inf"), values)
        largest = tl.max(left, 0)
        at = tl.min(tl.where((left == largest) & ~taken, columns, 2147483647), 0)
        found = at < n
        at = tl.where(found, at, 0)
        number = at.to(tl.int64)
        if HAS_IDS:
            number = tl.load(ids + row * row_stride + at)
        out = row * out_stride + chunk * k + i
        tl.store(values_out + out, tl.where(found, largest, -float("inf")))
        tl.store(ids_out + out, number)
        taken = taken | (columns == at)


def top_k(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest numbers of each row of x [R, n] and their columns, largest first, each [R, k].

    Of equal numbers the one further left comes first.
    """
    ids: Tensor | None = None
    while True:
        rows, n = x.shape
        chunk = min(_CHUNK, max(16, triton.next_power_of_2(n)))
        n_chunks = triton.cdiv(n, chunk)
        values_out = torch.empty(rows, n_chunks * k, dtype=x.dtype, device=x.device)
        ids_out = torch.empty(rows, n_chunks * k, dtype=torch.int64, device=x.device)
        _top_k_kernel[rows, n_chunks](
            x, ids_out if ids is None else ids, values_out, ids_out, n, k, x.stride(0), n_chunks * k,
            CHUNK=chunk, HAS_IDS=ids is not None,
        )  # fmt: skip
        if n_chunks == 1:
            return values_out, ids_out
        x, ids = values_out, ids_out
