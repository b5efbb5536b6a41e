"""Out of memory is recognised, and a batch is split until it fits."""

import platform
import resource
import subprocess
import sys

import numpy as np
import pytest
import torch

from regard.errors import UserError
from regard.memory import advise_if_full, is_out_of_memory, split_to_fit


def numbers_if_few(rows: range, most: int = 2) -> list[int]:
    if len(rows) > most:
        raise torch.OutOfMemoryError
    return list(rows)


def test_real_errors_of_torch_and_numpy_are_recognised() -> None:
    for allocate in (lambda: torch.empty(1 << 50), lambda: np.empty(1 << 50)):
        with pytest.raises((RuntimeError, MemoryError)) as raised:
            allocate()
        assert is_out_of_memory(raised.value)


def test_errors_that_follow_from_a_lack_of_memory_are_recognised() -> None:
    with pytest.raises(RuntimeError) as raised:
        try:
            raise torch.OutOfMemoryError
        finally:
            raise RuntimeError("the capture of a graph failed")
    assert is_out_of_memory(raised.value)
    assert is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"))


def test_other_errors_are_not_out_of_memory() -> None:
    assert not is_out_of_memory(None)
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    with pytest.raises(ZeroDivisionError):
        list(split_to_fit(lambda rows: 1 // 0, 4, ""))


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 13])
def test_parts_are_in_order_and_cover_all_rows(n: int) -> None:
    parts = list(split_to_fit(numbers_if_few, n, ""))
    assert [row for part in parts for row in part] == list(range(n))
    assert (len(parts) == 1) == (n <= 2), "a batch that fits is not split"


def test_a_single_row_that_does_not_fit_is_a_users_error() -> None:
    with pytest.raises(UserError, match=r"out of memory.*; shorten it"):
        list(split_to_fit(lambda rows: numbers_if_few(rows, most=0), 4, "shorten it"))
    with pytest.raises(UserError, match="shorten it"), advise_if_full("shorten it"):
        raise MemoryError


def test_what_the_failed_attempt_used_is_released_before_the_next_one() -> None:
    alive: list[int] = []

    class Used:
        def __init__(self) -> None:
            alive.append(1)

        def __del__(self) -> None:
            alive.pop()

    def run(rows: range) -> None:
        assert not alive
        used = Used()
        assert used
        if len(rows) > 1:
            raise torch.OutOfMemoryError

    assert list(split_to_fit(run, 4, "")) == [None] * 4


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_memory_of_freed_tensors_is_used_again() -> None:
    program = """
from pathlib import Path
import torch
from regard.memory import reuse_freed_memory

def pages() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1])

def kept() -> int:
    before = pages()
    torch.ones(64, 2**20)
    return pages() - before

before = pages()
plain = kept()
with reuse_freed_memory():
    reused = kept()
print(plain, reused, pages() - before)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    plain, reused, after = map(int, done.stdout.split())
    all_pages = 64 * 2**20 * 4 / resource.getpagesize()
    assert plain < 0.1 * all_pages and reused > 0.9 * all_pages and after < 0.1 * all_pages
