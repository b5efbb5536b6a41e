"""Start two processes on one folder, and see that exactly one of them works.

    python bench/faults/two_processes.py --n 50

Pairs of `regard train` start together on the same --out, half of them as two different runs: one must end with the
files of a lone run, the other must be refused in one line that names the host and the process of the first. For every
five pairs there is also: a start while another process trains, a start right after another was killed (which must
work), and `regard average` while another process trains.
"""

import os
import shutil
import signal
import socket
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

from command import Command, Done, run
from experiment import (
    Case,
    Outcome,
    Reference,
    bundle_files,
    make_reference,
    make_references,
    parse_options,
    run_cases,
    work_folder,
)

COLUMNS = ("right", "WRONG")
AVERAGE = ("--last", 2)
Pair = tuple[Reference, Reference, Reference]
"""A run, the same with another seed, and the same with more updates"""


def together(pair: Pair, folder: Path, random: Random, second: int) -> list[str]:
    """Start two processes within 50 ms."""
    references = (pair[0], pair[second])
    commands = []
    for reference in references:
        commands.append(Command(*reference.training.arguments(folder / "out"), cache=folder / "cache"))
        time.sleep(random.random() * 0.05)
    ends = [command.wait() for command in commands]
    winners = [i for i, done in enumerate(ends) if done.code == 0]
    if len(winners) != 1:
        return [f"{len(winners)} of two succeeded: {ends[0]}; {ends[1]}"]
    [winner] = winners
    problems = references[winner].verdict(folder / "out", folder / "cache")[1]
    return problems + refusal_problems(ends[1 - winner], commands[winner].pid)


def while_running(pair: Pair, folder: Path, random: Random) -> list[str]:
    """Start a second process while the first trains."""
    reference = pair[0]
    first = Command(*reference.training.arguments(folder / "out"), cache=folder / "cache")
    first.wait_for_event(random.randint(5, len(reference.done.events) // 2))
    second = run(*reference.training.arguments(folder / "out", resume=True), cache=folder / "cache")
    problems = refusal_problems(second, first.pid)
    done = first.wait()
    return problems + ([str(done)] if done.code else reference.verdict(folder / "out", folder / "cache")[1])


def after_kill(pair: Pair, folder: Path, random: Random) -> list[str]:
    """Start a second process right after the first was killed."""
    reference = pair[0]
    first = Command(*reference.training.arguments(folder / "out"), cache=folder / "cache")
    first.running(random.random() * reference.done.seconds)
    first.kill()
    first.wait()
    done = run(*reference.training.arguments(folder / "out", resume=True), cache=folder / "cache")
    return [str(done)] if done.code else reference.verdict(folder / "out", folder / "cache")[1]


def average(pair: Pair, folder: Path, random: Random) -> list[str]:
    """Call `regard average` while a finished run is trained further."""
    before, _, longer = pair
    shutil.copytree(before.out, folder / "out")
    first = Command(*longer.training.arguments(folder / "out", resume=True), cache=folder / "cache")
    first.wait_for_event(random.randint(5, len(longer.done.events) // 2))
    os.kill(first.pid, signal.SIGSTOP)  # or it might finish before the other has started
    problems = refusal_problems(run("average", folder / "out", *AVERAGE, cache=folder / "cache"), first.pid)
    os.kill(first.pid, signal.SIGCONT)
    done = first.wait()
    same = bundle_files(folder / "out") == longer.files
    return problems + ([] if same and not done.code else [f"another model: {done}"])


def refusal_problems(done: Done, pid: int) -> list[str]:
    """Return what is wrong with the refusal of a process, which must name the other one."""
    if done.refused and socket.gethostname() in done.line and str(pid) in done.line:
        return []
    return [f"does not name host {socket.gethostname()} and process {pid}: {done}"]


SITUATIONS = {
    "together": partial(together, second=0),
    "other-seed": partial(together, second=1),
    "while-running": while_running,
    "after-kill": after_kill,
    "average": average,
}


def work(pairs: dict[str, Pair], case: Case) -> list[Outcome]:
    random = case.random()
    recipe = random.choice(sorted(pairs))
    situation = case.name.rpartition("-")[0]
    problems = SITUATIONS[situation](pairs[recipe], case.folder, random)
    message = f"{recipe}, {situation}: {'; '.join(problems)}" if problems else ""
    return [Outcome(situation, "WRONG" if problems else "right", message)]


def make_pair(reference: Reference, folder: Path) -> Pair:
    """Train the other runs that a run is compared with."""
    training = reference.training
    other = make_reference(replace(training, seed=2), folder / "seed")
    shutil.copytree(reference.out, folder / "longer" / "out")
    longer = replace(training, settings=("train.steps=80",))
    done = run(*longer.arguments(folder / "longer" / "out", resume=True), cache=folder / "longer" / "cache")
    files = bundle_files(folder / "longer" / "out")
    return reference, other, Reference(longer, folder / "longer", done, files, "")


def main() -> None:
    args = parse_options(__doc__, n=50)
    with work_folder() as folder:
        references = make_references(args.recipes, folder)
        pairs = {recipe: make_pair(reference, folder / "pairs" / recipe) for recipe, reference in references.items()}
        situations = list(SITUATIONS)
        names = [f"{situations[i % 2]}-{i}" for i in range(args.n)]
        names += [f"{situation}-{i}" for i in range(-(-args.n // 5)) for situation in situations[2:]]
        run_cases(args, names, partial(work, pairs), folder, COLUMNS)


if __name__ == "__main__":
    main()
