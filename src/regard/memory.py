"""Out of memory: how it is recognised, and batches that are split until they fit. Memory of the host is reused."""

import ctypes
import gc
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TypeVar

import torch

from regard.errors import UserError

R = TypeVar("R")

_MALLOC_TRIM_THRESHOLD, _MALLOC_MMAP_THRESHOLD, _MALLOC_MMAP_MAX = -1, -3, -4  # options of mallopt

_MESSAGES = (
    *("can't allocate memory", "not enough memory", "bad_alloc"),  # the host
    *("CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED"),
)
"""How a plain RuntimeError of torch says that memory ran out"""


class OutOfMemoryCaught:
    """Runs a block and catches the error if memory runs out; afterwards true if it did.

    Memory is released when the block has been left, because until then the error refers to the block's variables.
    """

    def __init__(self) -> None:
        self._caught = False

    def __enter__(self) -> "OutOfMemoryCaught":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        self._caught = is_out_of_memory(error)
        return self._caught

    def __bool__(self) -> bool:
        return self._caught


def is_out_of_memory(error: BaseException | None) -> bool:
    """Return whether an error, or one that it followed from, says that memory ran out on a GPU or on the host."""
    while error is not None:
        if isinstance(error, torch.OutOfMemoryError | MemoryError):
            return True
        if isinstance(error, RuntimeError) and any(message in str(error) for message in _MESSAGES):
            return True
        error = error.__cause__ or error.__context__
    return False


def release_memory() -> None:
    """Give unused memory back, so that the next attempt has as much as possible."""
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


@contextmanager
def reuse_freed_memory(wanted: bool = True) -> Iterator[None]:
    """Let this process keep the memory of freed tensors for the next ones, in the block, if its C library is glibc.

    Otherwise every large tensor comes from the system, which fills each of its pages with zeros at the first use.
    """
    library = ctypes.CDLL(None) if wanted and platform.libc_ver()[0] == "glibc" else None
    if library is None:
        yield
        return
    try:
        library.mallopt(_MALLOC_MMAP_MAX, 0)
        library.mallopt(_MALLOC_TRIM_THRESHOLD, 2**31 - 1)
        yield
    finally:
        library.mallopt(_MALLOC_MMAP_MAX, 65_536)  # the default
        library.mallopt(_MALLOC_MMAP_THRESHOLD, 32 * 2**20)  # where glibc's own thresholds, which are off from now on,
        library.mallopt(_MALLOC_TRIM_THRESHOLD, 64 * 2**20)  # end up in a process with large tensors
        library.malloc_trim(0)


@contextmanager
def advise_if_full(advice: str) -> Iterator[None]:
    """Turn the error of a block that runs out of memory into a UserError with advice."""
    with OutOfMemoryCaught() as full:
        yield
    if full:
        raise _too_large(advice)


def split_to_fit(run: Callable[[range], R], n: int, advice: str) -> Iterator[R]:
    """Yield run(range(n)) or, if memory runs out, the results of both halves, and so on down to one row.

    Results come in the order of the rows. If a single row does not fit, raise a UserError with advice.
    """
    waiting = [range(n)]
    while waiting:
        rows = waiting.pop()
        with OutOfMemoryCaught() as full:
            result = run(rows)
        if not full:
            yield result
            continue
        release_memory()
        if len(rows) <= 1:
            raise _too_large(advice)
        middle = len(rows) // 2
        waiting += [rows[middle:], rows[:middle]]


def _too_large(advice: str) -> UserError:
    return UserError(f"out of memory, and the batch cannot be split further; {advice}")
