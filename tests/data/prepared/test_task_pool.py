"""Pools of processes: results in order, bounded work in advance, no orphans."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from regard.data.prepared.task_pool import open_pool
from regard.errors import UserError


def test_results_are_in_order_and_items_are_made_when_there_is_room() -> None:
    made = []

    def items() -> Iterator[int]:
        for i in range(20):
            made.append(i)
            yield i

    with open_pool(2) as pool:
        results = pool.run(abs, items())
        assert next(results) == 0 and len(made) <= 4
        assert list(results) == list(range(1, 20))


def test_a_killed_process_is_an_error_of_one_line() -> None:
    with open_pool(2) as pool, pytest.raises(UserError, match="run the same command again"):
        list(pool.run(os._exit, [1]))


def test_processes_end_with_a_main_process_that_is_killed() -> None:
    code = (
        "import os, time\n"
        "from regard.data.prepared.task_pool import open_pool\n"
        "if __name__ == '__main__':\n"
        "    with open_pool(2) as pool:\n"
        "        print(*pool.run(str, [1]), flush=True)\n"
        "        print(open(f'/proc/self/task/{os.getpid()}/children').read(), flush=True)\n"
        "        time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout and process.stdout.readline() == "1\n"
    children = [Path("/proc") / pid for pid in process.stdout.readline().split()]
    assert len(children) >= 2
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    for _ in range(300):
        if not any(child.exists() and "Z" not in (child / "stat").read_text().split()[2] for child in children):
            return
        time.sleep(0.1)
    raise AssertionError("processes are left")
