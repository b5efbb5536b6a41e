"""The processes that train one model together, started by torchrun. Each is a rank, numbered from 0."""

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from regard.errors import UserError

_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""What torchrun, or a script in its place, sets in the environment of each process"""
_BACKENDS = "cpu:gloo,cuda:nccl"
_TIMEOUT = timedelta(minutes=10)  # of one exchange; a process that has ended is noticed at once
_POLL = 0.05  # seconds between two looks at what the first rank has done
_FAILED = b"failed"
_CONNECTION = re.compile(r"gloo|nccl|connection|socket|broken pipe|timed? ?out", re.IGNORECASE)
"""In the messages of errors that mean that another process cannot be reached"""


class OtherRankFailed(UserError):
    """Another process of the run has ended or failed; its own message says why."""


@dataclass(frozen=True)
class Ranks:
    """This process among all processes of a run. By default it is the only one."""

    rank: int = 0
    size: int = 1
    store: Any = None
    """Where the first rank leaves what the others wait for"""
    _keys: Iterator[int] = field(default_factory=count, repr=False)

    @property
    def is_first(self) -> bool:
        """Whether this process validates, prints and writes files."""
        return self.rank == 0

    def add(self, tensor: Tensor) -> None:
        """Replace a tensor by the sum of those of all ranks."""
        self._exchange(tensor, dist.ReduceOp.SUM)

    def largest(self, *numbers: float) -> list[float]:
        """Return the largest of each of these numbers among all ranks."""
        if self.size == 1:
            return list(numbers)
        tensor = torch.tensor(numbers, dtype=torch.float64)
        self._exchange(tensor, dist.ReduceOp.MAX)
        return tensor.tolist()

    def any(self, flag: bool) -> bool:
        """Return whether the flag is true on any rank."""
        return bool(self.largest(flag)[0])

    def copy_from_first(self, tensor: Tensor) -> None:
        """Replace a tensor by that of the first rank."""
        if self.size > 1:
            with _connection():
                dist.broadcast(tensor, src=0)

    def from_first(self, make: Callable[[], Any]) -> Any:
        """Return what `make` returns on the first rank, as JSON; the others wait for it, however long it takes."""
        if self.size == 1:
            return make()
        key = f"regard/{next(self._keys)}"
        if self.is_first:
            try:
                value = json.dumps(make()).encode()
            except BaseException:
                with _connection():
                    self.store.set(key, _FAILED)
                raise
            with _connection():
                self.store.set(key, value)
            return json.loads(value)
        with _connection():
            while not self.store.check([key]):
                time.sleep(_POLL)
            value = self.store.get(key)
        if value == _FAILED:
            raise OtherRankFailed(f"rank {self.rank} ends because rank 0 has failed; see its message")
        return json.loads(value)

    def check_equal(self, value: str, what: str, advice: str) -> None:
        """Raise a UserError if this rank has another value than the first one."""
        first = self.from_first(lambda: value)
        if value != first:
            raise UserError(f"rank {self.rank} has {what} {value}, but rank 0 has {first}; {advice}")

    def wait(self) -> None:
        """Return when all ranks have come here."""
        self.largest(0.0)

    def _exchange(self, tensor: Tensor, operation: Any) -> None:
        if self.size > 1:
            with _connection():
                dist.all_reduce(tensor, operation)


def started_by_torchrun() -> bool:
    return all(name in os.environ for name in _VARIABLES)


def speaks() -> bool:
    """Whether this process prints what all ranks would print."""
    return not started_by_torchrun() or os.environ["RANK"] == "0"


def torchrun_id() -> str | None:
    """Return the identity of the torchrun job that this process belongs to; its restarts have the same."""
    identity = os.environ.get("TORCHELASTIC_RUN_ID", "none")
    return None if identity == "none" else identity


def is_restart() -> bool:
    """Whether torchrun has started this process again, after one of the processes has failed."""
    return os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"


def rank_device(device: torch.device) -> torch.device:
    """Return the device of this rank: of several GPUs, each process of a machine has its own."""
    if device.type != "cuda" or device.index is not None or not started_by_torchrun():
        return device
    local, n_gpus = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if local >= n_gpus:
        raise UserError(f"torchrun started more processes than there are GPUs here ({n_gpus}); lower --nproc-per-node")
    return torch.device("cuda", local)


@contextmanager
def join_ranks(device: torch.device) -> Iterator[Ranks]:
    """Connect the processes that torchrun has started; without torchrun, this process is alone."""
    if not started_by_torchrun():
        yield Ranks()
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)  # before NCCL starts
    with _connection():
        store, rank, size = next(iter(rendezvous("env://", timeout=_TIMEOUT)))
        backend = _BACKENDS if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=_TIMEOUT)
    ranks = Ranks(rank, size, PrefixStore("run", store))
    with _connection():
        yield ranks
    ranks.wait()  # the first rank has the store, so it must not be gone while others still read
    dist.destroy_process_group()


@contextmanager
def _connection() -> Iterator[None]:
    """Turn the errors of a lost connection into one line."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, dist.DistError) and not _CONNECTION.search(str(error)):
            raise
        reason = str(error).strip().splitlines()[0].partition(" This is typically")[0]
        raise OtherRankFailed(f"lost the connection to the other ranks ({reason[:200]})") from error
