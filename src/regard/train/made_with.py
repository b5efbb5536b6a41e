"""What a run is made with: what must be the same for a resumed run to give the same bits."""

import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import device as Device

from regard.errors import UserError


@dataclass(frozen=True)
class MadeWith:
    """Stored in every checkpoint, under these names."""

    torch: str
    device: str
    threads: int
    ranks: int
    deterministic: bool
    data: str
    """Hash of the training data and the validation data"""

    @classmethod
    def of(cls, device: Device, ranks: int, deterministic: bool, data: str) -> "MadeWith":
        return cls(
            torch=torch.__version__.partition("+")[0],
            device=torch.cuda.get_device_name() if device.type == "cuda" else platform.machine(),
            threads=torch.get_num_threads(),
            ranks=ranks,
            deterministic=deterministic,
            data=data,
        )

    def changes(self, before: Mapping[str, Any], allow_inexact: bool) -> Iterator[str]:
        """Yield a line about each difference, or raise a UserError about one that is not allowed.

        The number of ranks may differ, and with it the number of threads: then only the order of sums changes.
        """
        before = {"ranks": 1, **before}
        may_differ = ("ranks", "threads") if before["ranks"] != self.ranks else ()
        for name, now in asdict(self).items():
            if before.get(name) == now:
                continue
            if name == "data":
                raise UserError("training or validation data differ from those of the first run; use the same files")
            if not allow_inexact and name not in may_differ:
                raise UserError(
                    f"the run began with {name} {before.get(name)}, now it is {now}, so the result would not be "
                    "bit-identical; add --allow-inexact to continue anyway"
                )
            yield f"{name} was {before.get(name)}, is {now}: the result will not be bit-identical"
