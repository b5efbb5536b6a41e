"""Threads of torch on a CPU: as many as this process may use, and none that spin for long while they wait."""

import math
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_SPINS = "6000"  # some 0.1 ms: longer than the pause between two products


def limit_spinning() -> None:
    """Let OpenMP's threads spin only briefly while they wait, unless the user has chosen; call it before torch loads.

    By default they spin for milliseconds. When another program also needs the cores, this makes torch up to 15 times
    slower on two of them. Threads that sleep at once have to be woken for every small product, which makes decoding
    with a base model twice as slow.
    """
    if "torch" not in sys.modules and "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", _SPINS)


def usable_cores() -> int:
    """Return the cores that this process may use: those that it may run on, within the quota of its container."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = _QUOTA.read_text().split()
        return max(1, min(cores, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):  # no container, or no limit
        return cores


def threads_to_use() -> int:
    """Return how many threads a library beside torch may use: $OMP_NUM_THREADS, or one for each usable core."""
    chosen = os.environ.get("OMP_NUM_THREADS", "")
    return int(chosen) if chosen.isdecimal() and int(chosen) else usable_cores()


def limit_threads() -> None:
    """Let torch use no more threads than there are usable cores, unless OMP_NUM_THREADS is set."""
    import torch

    if "OMP_NUM_THREADS" not in os.environ and torch.get_num_threads() > (n := usable_cores()):
        torch.set_num_threads(n)


_owner = threading.main_thread()


def own_threads(n: int) -> None:
    """Let this Python thread, instead of the main one, decode with so many of torch's threads."""
    import torch

    global _owner
    _owner = threading.current_thread()
    torch.set_num_threads(n)


def threads_wake_quickly() -> bool:
    """Return whether OpenMP's threads spin between two products of this Python thread.

    OpenMP starts threads for each Python thread that needs any. When there are more than cores, it lets none spin.
    """
    return threading.current_thread() is _owner and os.environ.get("OMP_WAIT_POLICY") != "passive"


@contextmanager
def one_thread(wanted: bool = True) -> Iterator[None]:
    """Let torch use one thread in the block: for small operations, waking others takes longer than the work."""
    import torch

    before = torch.get_num_threads()
    if not wanted or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def run_in_threads(run: Callable[[T], R], items: Sequence[T], n_threads: int) -> Iterator[R]:
    """Yield run(item) of each item, in order, computed by so many threads.

    Each uses one core: several sentences on one core each are faster than one sentence on several.
    """
    import torch

    if n_threads < 2 or len(items) < 2:
        yield from map(run, items)
        return
    before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(n_threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield from pool.map(run, items)
    finally:
        torch.set_num_threads(before)
