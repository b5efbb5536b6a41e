"""Workers and the whole command are killed; the files in the end are those of a job that nothing disturbed."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.cli.command import environment, regard
from tests.synthetic.conftest import random_lines, untrained_translator, write_lines


def wait_for(condition: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


class Job:
    """`regard translate` with two workers, in a process of its own."""

    def __init__(self, model: Path, sources: list[Path], folder: Path) -> None:
        self.arguments = ["translate", model, "--input", *sources, "--output", folder, "--part-lines", 20]
        self.folder = folder
        command = [sys.executable, "-m", "regard", *map(str, self.arguments), "--workers", "2"]
        self.process = subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True)

    def n_parts(self) -> int:
        return len(list((self.folder / ".parts").rglob("part-*.gz")))

    def wait_for_parts(self, n_more: int = 1) -> None:
        n = self.n_parts() + n_more
        wait_for(lambda: self.n_parts() >= n or self.process.poll() is not None)
        assert self.process.poll() is None, "the job was over before it could be disturbed"


def test_nothing_is_lost_or_doubled_when_workers_and_the_command_are_killed(tmp_path: Path) -> None:
    model = untrained_translator(tmp_path / "model")
    sources = [write_lines(tmp_path / f"{name}.fr", random_lines(1500, seed)) for seed, name in enumerate("ab")]
    folder = tmp_path / "out"

    job = Job(model, sources, folder)
    job.wait_for_parts()
    killed, other = children(job.process.pid)
    subprocess.run(["kill", "-9", str(killed)], check=True)
    wait_for(lambda: set(children(job.process.pid)) - {killed, other})
    job.wait_for_parts()
    workers = children(job.process.pid)
    assert killed not in workers and other in workers and len(workers) == 2, "the worker is replaced"
    job.process.kill()
    job.process.communicate()
    wait_for(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers), 10)

    job = Job(model, sources, folder)
    wait_for(lambda: len(children(job.process.pid)) == 2)
    workers = children(job.process.pid)
    job.process.send_signal(signal.SIGTERM)
    _, error = job.process.communicate(timeout=20)
    assert job.process.returncode == 128 + signal.SIGTERM
    assert error == "regard: stopped; give the same command again to continue\n"
    assert workers and not any(Path(f"/proc/{worker}").exists() for worker in workers)

    n_before = job.n_parts()
    assert 0 < n_before < 150
    assert regard(*job.arguments).returncode == 0
    assert regard("translate", model, "--input", *sources, "--output", tmp_path / "undisturbed").returncode == 0
    for source in sources:
        written = (folder / source.name).read_bytes()
        assert written == (tmp_path / "undisturbed" / source.name).read_bytes() and written.count(b"\n") == 1500
