"""Train on disks that are too small or become full, and see that nothing that was saved is lost.

    sudo python bench/faults/disk_full.py --n 50     # mounting a disk in memory (tmpfs) needs root

In two of five cases the disk is too small from the start, in two it becomes full before a random change of a file, and
in one it is full when `regard average` replaces a model. The command must end with exit code 2 and one line that names
the file and the free space. Copied to a larger disk, the run must go on from its last complete checkpoint and end with
the same files as an undisturbed one.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from command import Done, Trap, fill_disk, run
from experiment import Case, Outcome, Reference, bundle_files, make_references, parse_options, run_cases, work_folder

COLUMNS = ("finished", "resumed", "WRONG")
AVERAGE = ("--last", 2)


@contextmanager
def disk(folder: Path, kibibytes: int) -> Iterator[Path]:
    """Mount a disk of this size in memory."""
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def work(references: dict[str, Reference], case: Case) -> list[Outcome]:
    random = case.random()
    reference = references[random.choice(sorted(references))]
    kind = case.name.partition("-")[0]
    space = used_space(reference.folder)
    if kind == "average":
        free = random.choice([0, 4, 8, 16, 64])
        what = f"average with {free} KiB free"
        with disk(case.folder / "disk", 2 * space) as small:
            column, problems = average(reference, small, case.folder / "large", free)
    else:
        trap = Trap(random.randint(1, len(reference.done.events)), "fill") if kind == "fill" else None
        size = 2 * space if trap else random.randrange(8, space, 4)
        what = f"full at event {trap.event}" if trap else f"a disk of {size} KiB"
        with disk(case.folder / "disk", size) as small:
            column, problems = train(reference, small, case.folder / "large", trap)
    message = f"{reference.training.recipe}, {what}: {'; '.join(problems)}" if problems else ""
    return [Outcome(kind, column, message)]


def train(reference: Reference, small: Path, large: Path, trap: Trap | None) -> tuple[str, list[str]]:
    """Train on a small disk and go on on a large one; return the column of the table, and problems."""
    training = reference.training
    done = run(*training.arguments(small / "out"), cache=small / "cache", trap=trap, watch=small)
    problems = message_problems(done, small) if done.code else []
    copy(small, large)
    saved = saved_steps(done)
    again = run(*training.arguments(large / "out", resume=True), cache=large / "cache")
    if again.code:
        return "WRONG", [*problems, str(again)]
    resumed = re.search(r"resumed from step-(\d+)", again.err)
    if saved and (not resumed or int(resumed[1]) < saved[-1]):
        problems.append(f"step {saved[-1]} was saved and is lost: {resumed[0] if resumed else 'began again'}")
    problems += reference.verdict(large / "out", large / "cache")[1]
    return "WRONG" if problems else "resumed" if done.code else "finished", problems


def average(reference: Reference, small: Path, large: Path, free: int) -> tuple[str, list[str]]:
    """Average on a disk with `free` KiB, and again on a large one; return the column of the table, and problems."""
    training, cache = reference.training, small / "cache"
    shutil.copytree(reference.out, small / "out")
    fill_disk(small)
    with (small / "ballast").open("ab") as ballast:
        ballast.truncate(max(0, ballast.tell() - free * 1024))
    done = run("average", small / "out", *AVERAGE, cache=cache)
    problems = message_problems(done, small) if done.code else []
    used = training.use(small / "out", cache)
    if done.code and (used.code or used.out != reference.output):
        problems.append(f"the old model is lost: {used}")
    copy(small, large)
    again = run("average", large / "out", *AVERAGE, cache=large / "cache")
    shutil.copytree(reference.out, large / "expected")
    run("average", large / "expected", *AVERAGE, cache=large / "cache")
    if again.code or bundle_files(large / "out") != bundle_files(large / "expected"):
        problems.append(f"on a large disk: another result: {again}")
    return "WRONG" if problems else "resumed" if done.code else "finished", problems


def message_problems(done: Done, small: Path) -> list[str]:
    """Return what is wrong with how a command ended on a full disk."""
    if done.refused and str(small) in done.line and "free" in done.line:
        return []
    return [f"no single line with the path and the free space: {done}"]


def saved_steps(done: Done) -> list[int]:
    """Return the steps of the checkpoints that were complete: whose renaming was followed by another change."""
    renamed = [re.search(r"^rename .*/checkpoints/step-(\d+)$", event) for event in done.events[:-1]]
    return [int(match[1]) for match in renamed if match]


def copy(small: Path, large: Path) -> None:
    shutil.copytree(small, large, ignore=shutil.ignore_patterns("ballast"))


def used_space(folder: Path) -> int:
    """Return the KiB that the files of a folder take on a disk with blocks of 4 KiB."""
    return sum(-(-path.stat().st_size // 4096) * 4 for path in folder.rglob("*") if path.is_file())


def mount_privately() -> None:
    """Start this program again where its mounts are seen by nobody else, and vanish when it ends in any way."""
    if os.environ.get("PRIVATE_MOUNTS") == "yes":
        return
    if os.geteuid() != 0:
        sys.exit("disk_full.py mounts disks in memory; run it as root")
    command = ["unshare", "--mount", sys.executable, *sys.argv]
    os.execvpe("unshare", command, {**os.environ, "PRIVATE_MOUNTS": "yes"})


def main() -> None:
    args = parse_options(__doc__, n=50)
    mount_privately()
    with work_folder() as folder:
        references = make_references(args.recipes, folder)
        names = [f"{('size', 'fill', 'size', 'fill', 'average')[i % 5]}-{i}" for i in range(args.n)]
        run_cases(args, names, partial(work, references), folder, COLUMNS)


if __name__ == "__main__":
    main()
