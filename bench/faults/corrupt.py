"""Damage files of models, checkpoints, runs and the cache, and see what the commands that use them do.

    python bench/faults/corrupt.py --n 100
    python bench/faults/corrupt.py --n 2000

Each time one file is changed: bits, bytes, its length, single values of JSON and YAML, or the file is deleted, swapped
with that of another run, or replaced by a folder, a FIFO or a dangling link. Then the command that uses it runs: the
one that uses the model, `train --resume`, or `train` with the same cache. It must refuse the file in one line, or give
exactly the result of undamaged files. In the rows "forged", the manifest was made to fit the changed file;
another result is then right ("accepted"), unless a checkpoint is not finite.
"""

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

import damage
from command import Done, Trap, run
from experiment import (
    RUN_FILES,
    Case,
    Outcome,
    Reference,
    Training,
    bundle_files,
    make_reference,
    parse_options,
    run_cases,
    work_folder,
    write_data,
)

AREAS = ("bundle", "checkpoint", "run files", "cache", "forged bundle", "forged checkpoint")
SHARES = (5, 5, 4, 4, 1, 1)
COLUMNS = (
    "detected",
    "recovered",
    "harmless",
    "accepted",
    "TOLD CHANGE",
    "SILENT CHANGE",
    "TRACEBACK",
    "HANG",
    "CRASH",
)
"""recovered: the same result, and a message; harmless: the same result; TOLD CHANGE: another result, and a message"""


@dataclass(frozen=True)
class Victim:
    """A reference, the same run half-way, and other runs of the same shapes whose files are swapped with its files."""

    reference: Reference
    half: Path
    """Folder with `out` and `cache` of a run that was killed half-way"""
    normal: frozenset[str]
    """What the run, and the half-done run when it is resumed, print without damage"""
    others: tuple[Path, ...]
    """Folders with `out`, `half` and `cache`"""


def make_victim(recipe: str, folder: Path, data: Sequence[Path]) -> Victim:
    training = Training(recipe, data[0])
    reference = make_reference(training, folder / "reference")
    half = make_half(training, reference, folder / "half")
    resumed = folder / "resumed"
    shutil.copytree(half, resumed)
    done = run(*training.arguments(resumed / "out", resume=True), cache=resumed / "cache")
    others = []
    for name, other in (("seed", Training(recipe, data[0], seed=2)), ("data", Training(recipe, data[1]))):
        make_half(other, reference, folder / name / "half")
        others.append(make_reference(other, folder / name / "reference").folder)
    return Victim(reference, half, frozenset([*messages(reference.done), *messages(done)]), tuple(others))


def make_half(training: Training, reference: Reference, folder: Path) -> Path:
    """Train until three quarters of the changes of files are made."""
    folder.mkdir(parents=True)
    trap = Trap(len(reference.done.events) * 3 // 4)
    run(*training.arguments(folder / "out"), cache=folder / "cache", trap=trap)
    return folder


def messages(done: Done) -> list[str]:
    """Return what a run says, without numbers, scores and samples."""
    lines = [line for line in done.err.splitlines() if not line.startswith(" ")]
    return [re.sub(r"[\d.,e+-]+|\(best so far\)", "", line).strip() for line in lines]


def corrupt(victims: dict[str, Victim], case: Case) -> list[Outcome]:
    """Damage one file, run the command that uses it, and classify what happens."""
    random = case.random()
    area = random.choices(AREAS, SHARES)[0]
    victim = victims[random.choice(sorted(victims))]
    out, cache = case.folder / "out", case.folder / "cache"
    prepare(victim, area, out, cache)
    path, how = damage_one(victim, area, case.folder, random)
    done, result = use(victim, area, out, cache)
    column, wrong = classify(victim, area, done, result, how)
    what = f"{victim.reference.training.recipe}, {area}: {path.relative_to(case.folder)}: {how}"
    return [Outcome(area, column, f"{column}: {what}: {done}" if wrong else "")]


def prepare(victim: Victim, area: str, out: Path, cache: Path) -> None:
    """Make the folders that are damaged."""
    reference = victim.reference
    if "bundle" in area:
        shutil.copytree(reference.out, out, ignore=shutil.ignore_patterns("checkpoints"))
    elif area == "cache":
        shutil.copytree(reference.cache, cache)
    else:
        shutil.copytree(victim.half / "out", out)
        shutil.copytree(victim.half / "cache", cache)


def damage_one(victim: Victim, area: str, folder: Path, random: Random) -> tuple[Path, str]:
    """Damage a random file of the area; return it and the kind of damage."""
    while True:
        path = random.choice(files_of(area, folder))
        try:
            if area.startswith("forged"):
                tensors = [*damage.TENSORS, "remove tensor"]
                kind = random.choice(tensors if path.suffix == ".safetensors" else list(damage.EDITS))
                return path, f"forged: {damage.forge(path, kind, random)}"
            whole = path.parent == folder / "out"  # swapping all files would make it another model
            kind = random.choice(damage.kinds(path) + ["swap folder"] * (not whole))
            return path, damage.damage(path, kind, random, counterparts(victim, area, path.relative_to(folder)))
        except damage.NotPossible:
            pass


def files_of(area: str, folder: Path) -> list[Path]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    names = {path: path.relative_to(folder).parts[1] for path in paths}
    if area == "cache":
        return paths
    if area == "bundle":
        return [folder / "out" / name for name in bundle_files(folder / "out")]
    if area == "run files":
        return [path for path in paths if names[path] != "checkpoints" and path.is_relative_to(folder / "out")]
    if area == "checkpoint":
        return [path for path in paths if names[path] == "checkpoints"]
    part = [path for path in paths if (names[path] == "checkpoints") == (area == "forged checkpoint")]
    return [path for path in part if path.suffix in (".json", ".safetensors") and not RUN_FILES.fullmatch(path.name)]


def counterparts(victim: Victim, area: str, name: Path) -> list[Path]:
    """Return the same file of the other runs; entries of the cache have other names there."""
    if area == "cache":
        return [path for other in victim.others for path in sorted((other / "cache").rglob(name.name))]
    folders = [other if "bundle" in area else other.parent / "half" for other in victim.others]
    return [path for folder in folders if (path := folder / name).is_file()]


def use(victim: Victim, area: str, out: Path, cache: Path) -> tuple[Done, bool]:
    """Run the command that uses the damaged file; return it and whether its result is the right one."""
    reference = victim.reference
    if "bundle" in area:
        done = reference.training.use(out, cache)
        return done, done.out == reference.output
    done = run(*reference.training.arguments(out, resume=area != "cache"), cache=cache)
    return done, bundle_files(out) == reference.files


def classify(victim: Victim, area: str, done: Done, same: bool, how: str) -> tuple[str, bool]:
    """Return the column of the table, and whether this should not happen."""
    if done.hung:
        return "HANG", True
    if done.code < 0:
        return "CRASH", True
    if done.refused:
        return "detected", False
    if done.code or done.traceback:
        return "TRACEBACK", True
    told = set(messages(done)) - victim.normal if "bundle" not in area else done.err
    if same:
        return "recovered" if told else "harmless", False
    if area == "forged bundle" or (area == "forged checkpoint" and "not a number" not in how):
        return "accepted", False
    return "TOLD CHANGE" if told else "SILENT CHANGE", True


def main() -> None:
    args = parse_options(__doc__, n=2000)
    with work_folder() as folder:
        data = [write_data(folder / f"data-{seed}", seed) for seed in (1, 2)]
        victims = {recipe: make_victim(recipe, folder / recipe, data) for recipe in args.recipes}
        names = [f"file-{i}" for i in range(args.n)]
        run_cases(args, names, partial(corrupt, victims), folder, COLUMNS)


if __name__ == "__main__":
    main()
