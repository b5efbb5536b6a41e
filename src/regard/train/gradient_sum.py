"""The gradients of all ranks, added up."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.train.ranks import Ranks


class GradientSum:
    """Adds the gradients of all ranks in one exchange, through one array that holds all of them.

    torch's DistributedDataParallel would exchange them during the backward pass, but it must see every gradient when it
    is computed: neither the replayed CUDA graphs nor the bf16 copies of the weights allow this.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], ranks: Ranks) -> None:
        self.ranks = ranks
        self.parameters = [parameter for parameter in parameters if parameter.requires_grad]
        first, sizes = self.parameters[0], [parameter.numel() for parameter in self.parameters]
        self._buffer = torch.zeros(sum(sizes) + len(sizes) + 1, dtype=first.dtype, device=first.device)
        *views, self._is_present, self._nll = self._buffer.split([*sizes, len(sizes), 1])
        self._views = [view.view_as(p) for view, p in zip(views, self.parameters, strict=True)]

    @torch.no_grad()
    def __call__(self, nll: Tensor) -> Tensor:
        """Replace each gradient by its sum, and return the sum of `nll`.

        A parameter that has no gradient on any rank stays without one.
        """
        present = [p.grad is not None for p in self.parameters]
        self._is_present.copy_(torch.tensor(present))
        self._nll.copy_(nll)
        for view, is_present in zip(self._views, present, strict=True):
            if not is_present:
                view.zero_()
        _copy([(view, p.grad) for view, p in zip(self._views, self.parameters, strict=True)])
        self.ranks.add(self._buffer)
        if not all(present):
            anywhere = self._is_present.tolist()
            for p, n in zip(self.parameters, anywhere, strict=True):
                if n and p.grad is None:
                    p.grad = torch.zeros_like(p)
        _copy([(p.grad, view) for view, p in zip(self._views, self.parameters, strict=True)])
        return self._nll[0].clone()


def _copy(pairs: Sequence[tuple[Tensor | None, Tensor | None]]) -> None:
    present = [(to, source) for to, source in pairs if to is not None and source is not None]
    if present:  # a rank without a part of the batch has no gradients
        torch._foreach_copy_([to for to, _ in present], [source for _, source in present])
