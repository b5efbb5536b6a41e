"""Kill training runs at random moments and while they change files, resume them, and compare the results.

    python bench/faults/kill.py --n 20
    python bench/faults/kill.py --n 500                          # about half an hour on one core
    python bench/faults/kill.py --every --recipes transformer    # once before each change of a file

A run is killed three times with SIGKILL and resumed, and must end with the same files as a run that was never killed.
Half of the kills come at a random time, the others just before a random change of a file; half of these leave a file
that was being written empty or cut, as after a power failure. Every fifth kill hits `regard average`,
which replaces a model: afterwards the folder must hold either the old or the new one. The table counts the kills by
what the process was doing.
"""

import shutil
from functools import partial
from itertools import count
from pathlib import Path

from command import Command, Done, Trap, run
from experiment import (
    Case,
    Outcome,
    Reference,
    bundle_files,
    check_fork,
    different_files,
    evenly,
    left_over,
    make_references,
    parse_options,
    run_cases,
    work_folder,
)

KILLS = 3
"""Kills per run"""
AVERAGE = ("--last", 2)
COLUMNS = ("identical", "untidy", "DIFFERENT", "STUCK", "TRACEBACK")
"""untidy: the same result, with left over temporary files or repeated rows of metrics; STUCK: cannot be resumed"""


def chain(references: dict[str, Reference], case: Case, exact: bool) -> list[Outcome]:
    """Kill and resume a run until it was killed three times; if it ends before, kill another one."""
    random = case.random()
    reference = references[random.choice(sorted(references))]
    outcomes: list[Outcome] = []
    for attempt in count():
        if len(outcomes) >= KILLS:
            break
        runs, left = Runs(reference, case.folder / str(attempt)), 1.0
        while not runs.ended and len(outcomes) + runs.kills < KILLS:
            part = random.random() * left
            left = max(0.3, left - part / 2)  # the share of the run that remains, as some of it is done again
            if random.random() < 0.5 and not exact:
                runs.kill_at_time(part * reference.done.seconds)
            else:
                event = 1 + int(part * len(reference.done.events))
                runs.start(Trap(event, random.choice(["kill", "cut"])))
        outcomes += runs.outcomes()
    return outcomes


def kill_at_event(references: dict[str, Reference], case: Case) -> list[Outcome]:
    """Kill a run at the event that the name of the case gives."""
    recipe, event, action = case.name.split(":")
    runs = Runs(references[recipe], case.folder / "run")
    runs.start(Trap(int(event), action))
    return runs.outcomes()


class Runs:
    """One training run, started again after each kill."""

    def __init__(self, reference: Reference, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.reference, self.out, self.cache = reference, folder / "out", folder / "cache"
        self.done: list[Done] = []
        self.how: list[str] = []

    @property
    def kills(self) -> int:
        return sum(done.killed for done in self.done)

    @property
    def ended(self) -> bool:
        return bool(self.done) and not self.done[-1].killed

    def command(self, trap: Trap | None = None) -> Command:
        arguments = self.reference.training.arguments(self.out, resume=bool(self.done))
        return Command(*arguments, cache=self.cache, trap=trap)

    def start(self, trap: Trap | None = None) -> None:
        """Start or resume the run, to its end or until the trap kills it."""
        self.done.append(self.command(trap).wait())
        if trap and self.done[-1].killed:
            self.how.append(f"{trap.action} at event {trap.event} ({self.done[-1].events[-1]})")

    def kill_at_time(self, seconds: float) -> None:
        command = self.command()
        command.running(seconds)
        command.kill()
        self.done.append(command.wait())
        if self.done[-1].killed:
            self.how.append(f"kill after {seconds:.3f} s ({self.done[-1].phase})")

    def outcomes(self) -> list[Outcome]:
        """Let the run end; return one outcome per kill."""
        if not self.ended:
            self.start()
        if self.done[-1].code:
            verdict, problems = "STUCK", [str(self.done[-1])]
        else:
            verdict, problems = self.reference.verdict(self.out, self.cache)
        if tracebacks := [str(done) for done in self.done if done.traceback]:
            verdict, problems = "TRACEBACK", tracebacks
        problem = f"{self.reference.training.recipe}: {'; '.join(self.how)}: {'; '.join(problems)}" if problems else ""
        return [Outcome(done.phase, verdict, problem) for done in self.done if done.killed]


def average(references: dict[str, Reference], case: Case) -> list[Outcome]:
    """Kill `regard average` at an event: the folder must hold the old or the new model, and a second call the new."""
    _, recipe, event, action = case.name.split(":")
    reference, out, cache = references[recipe], case.folder / "out", case.folder / "cache"
    shutil.copytree(reference.out, out)
    done = run("average", out, *AVERAGE, cache=cache, trap=Trap(int(event), action))
    between = reference.training.use(out, cache)
    again = run("average", out, *AVERAGE, cache=cache)
    after = reference.training.use(out, cache)
    new_files, new_output = averaged(reference, case.folder / "new")
    problems, verdict = left_over(out), "untidy"
    if again.code or after.out != new_output or different_files(new_files, bundle_files(out)):
        problems, verdict = [*problems, f"a second call does not give the new model: {again}"], "STUCK"
    if between.code or between.out not in (reference.output, new_output):
        problems, verdict = [*problems, f"neither the old nor the new model: {between}"], "DIFFERENT"
    if tracebacks := [str(command) for command in (done, between, again) if command.traceback]:
        problems, verdict = tracebacks, "TRACEBACK"
    what = f"average {recipe}: {action} at event {event} ({done.events[-1] if done.events else 'none'})"
    return [
        Outcome("average", verdict, f"{what}: {'; '.join(problems)}") if problems else Outcome("average", "identical")
    ]


def averaged(reference: Reference, folder: Path) -> tuple[dict[str, str], str]:
    """Return the files and the output of the averaged model."""
    shutil.copytree(reference.out, folder / "out")
    run("average", folder / "out", *AVERAGE, cache=folder / "cache")
    return bundle_files(folder / "out"), reference.training.use(folder / "out", folder / "cache").out


def average_names(reference: Reference, folder: Path) -> list[str]:
    """Return the names of the cases that kill `regard average` at each of its events."""
    shutil.copytree(reference.out, folder / "out")
    done = run("average", folder / "out", *AVERAGE, cache=folder / "cache")
    return [f"average:{name}" for name in event_names(reference.training.recipe, done)]


def event_names(recipe: str, done: Done) -> list[str]:
    """Return RECIPE:EVENT:ACTION for each event; those that write a file also with the action `cut`."""
    names = []
    for number, event in enumerate(done.events, 1):
        actions = ("kill", "cut") if event.startswith(("create", "fsync")) else ("kill",)
        names += [f"{recipe}:{number}:{action}" for action in actions]
    return names


def work(references: dict[str, Reference], exact: bool, case: Case) -> list[Outcome]:
    if case.name.startswith("chain"):
        return chain(references, case, exact)
    return average(references, case) if case.name.startswith("average") else kill_at_event(references, case)


def main() -> None:
    args = parse_options(
        __doc__,
        n=500,
        every="instead of --n: once before each change of a file",
        exact="no kills at random times, so that the same seed gives the same kills",
    )
    with work_folder() as folder:
        references = make_references(args.recipes, folder)
        averages = []
        for recipe, reference in references.items():
            check_fork(reference, folder / "process" / recipe)
            averages += average_names(reference, folder / "average" / recipe)
        if args.every:
            names = [name for recipe, reference in references.items() for name in event_names(recipe, reference.done)]
            names += averages
        else:
            some = evenly(averages, args.n // 5)
            names = [f"chain-{i}" for i in range(-(-(args.n - len(some)) // KILLS))] + some
        run_cases(args, names, partial(work, references, args.exact), folder, COLUMNS)


if __name__ == "__main__":
    main()
