"""Process substitution: pipes in place of data files."""

import gzip
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.command import TOY, environment, failed_in_one_line, regard, toy_files

STEPS = "--set train.steps=2 --set valid.every=2 --set valid.sentences=4 --set batch.tokens=256"

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="process substitution needs bash")


def shell(command: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash, in which REGARD stands for the command."""
    line = command.replace("REGARD", f"{sys.executable} -m regard")
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=200, env=environment())


def zipped(path: Path) -> Path:
    """Write the gzipped content to a file without a suffix."""
    target = path.with_name(f"{path.stem}-{path.suffix[1:]}")
    target.write_bytes(gzip.compress(path.read_bytes()))
    return target


def test_training_reads_pipes(tmp_path: Path) -> None:
    src, tgt, *_ = (zipped(path) for path in toy_files(tmp_path, n=200))
    links = tmp_path / "links"
    links.write_text("0-0\n" * 200)
    options = f"--alignments <(cat {links}) {' '.join(TOY)} {STEPS} --set train.guide.layer=0"
    data = (
        f"<(gunzip -c < {src}) <(cat {tgt}) --valid <(head -n 9 {tmp_path}/train.src) <(head -n 9 {tmp_path}/train.tgt)"
    )
    done = shell(f"REGARD train {data} --out {tmp_path}/run {options}")
    assert done.returncode == 0, done.stderr
    assert " pairs used of 200 lines" in done.stderr and "9 pairs used of 9 lines" in done.stderr
    plain = f"{tmp_path}/train.src {tgt} --valid <(head -n 9 {tmp_path}/train.src) <(head -n 9 {tmp_path}/train.tgt)"
    again = shell(f"REGARD train {plain} --out {tmp_path}/run {options} --resume")
    assert again.returncode == 0, "a file with the same bytes as the pipe is the same data: " + again.stderr


def test_evaluation_and_alignment_read_pipes(toy_run: Path, held_out: tuple[Path, Path]) -> None:
    src, ref = held_out
    for verb in ("evaluate", "align"):
        from_files = regard(verb, toy_run, src, ref)
        from_pipes = shell(f"REGARD {verb} {toy_run} <(cat {src}) <(gzip < {ref})")
        assert from_pipes.returncode == 0, from_pipes.stderr
        assert from_pipes.stdout == from_files.stdout


def test_a_comparison_refuses_pipes_because_it_reads_files_again(tmp_path: Path) -> None:
    src, tgt, *_ = toy_files(tmp_path, n=50)
    data = f"<(cat {src}) {tgt} --test {src} {tgt}"
    done = shell(f"REGARD compare {data} --recipes tiny --updates 1 --out {tmp_path}/comparison")
    assert "is a pipe" in failed_in_one_line(done)


def test_folders_devices_and_missing_files_are_named(
    toy_run: Path, tmp_path: Path, error_line: Callable[..., str]
) -> None:
    src, tgt, *_ = toy_files(tmp_path, n=50)
    for path, message in ((tmp_path, "is a folder"), ("/dev/zero", "is a device"), (tmp_path / "no", "no such file")):
        for arguments in (
            ("train", src, path, "--out", tmp_path / "run"),
            ("train", src, tgt, "--valid", src, path, "--out", tmp_path / "run"),
            ("train", src, tgt, "--alignments", path, "--out", tmp_path / "run"),
            ("train", src, tgt, "--config", path, "--out", tmp_path / "run"),
            ("evaluate", toy_run, src, path),
            ("evaluate", toy_run, src, tgt, "--alignments", path),
            ("evaluate", toy_run, path),
            ("align", toy_run, src, path),
            ("align", toy_run, src, tgt, "--choose", path),
        ):
            assert f"{path}: {message}" in error_line(*arguments), arguments
