"""Kill the commands that translate in parts, start them again, and compare the results.

    python bench/faults/synthetic.py --n 40                      # each of the four jobs is killed ten times
    python bench/faults/synthetic.py --every --recipes distill   # once before each change of a file

`regard translate` of several files, `regard backtranslate`, `regard rounds` and `regard distill` are killed with
SIGKILL just before a change of a file; in half of the cases a file that was being written is left empty or cut, as
after a power failure. A job is killed ten times, each time further on, and then runs to its end: all its files must be
those of a job that was never killed. The table counts the kills by command.
"""

import sys
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

from command import Done, Trap, run
from experiment import (
    Case,
    Outcome,
    bundle_files,
    different_files,
    left_over,
    parse_options,
    run_cases,
    work_folder,
    write_data,
)

KILLS = 10
"""Kills per job"""
COLUMNS = ("identical", "untidy", "DIFFERENT", "STUCK", "TRACEBACK")
"""untidy: the same result, with temporary files left over; STUCK: the command cannot continue"""
SETTINGS = (
    *("model.d_model=16", "model.d_ff=16", "model.n_heads=2", "model.n_layers=1", "model.dropout=0.1"),
    *("batch.tokens=256", "train.steps=8", "train.warmup=2", "train.log_every=4", "train.save_every=3"),
    *("train.patience=0", "valid.every=4", "valid.sentences=4", "valid.samples=0"),
)
COMMON = ("--part-lines", 9, "--keep", 0.9, *(word for setting in SETTINGS for word in ("--set", setting)))
TINY = ("--recipe", "tiny", "--set", "tokenizer.kind=char", "--set", "decode.max_len=12")


@dataclass(frozen=True)
class Job:
    """A command without the folder that it writes."""

    verb: str
    data: Path

    def arguments(self, out: Path) -> tuple[object, ...]:
        data = self.data
        pairs, valid = (data / "small.en", data / "small.fr"), ("--valid", data / "valid.en", data / "valid.fr")
        if self.verb == "backtranslate":
            options = ("--part-lines", 3, "--keep", 0.8, "--sample")
            return "backtranslate", data / "model", data / "mono.fr", "--out", out / "pairs.tsv.gz", *options
        if self.verb == "translate":
            files = (data / "mono.fr", data / "small.fr", data / "valid.fr")
            return "translate", data / "model", "--input", *files, "--output", out / "lines", "--part-lines", 20
        if self.verb == "rounds":
            return "rounds", *pairs, *valid, "--mono-tgt", data / "mono.fr", "--out", out, *TINY, *COMMON
        teachers = (data / "forward", data / "other")
        options = ("--best-of", 2, "--keep-original", "--set", "model.n_decoder_layers=1")
        return "distill", *teachers, "--data", *pairs, *valid, "--out", out, *options, *COMMON


@dataclass(frozen=True)
class Undisturbed:
    """A job that nothing disturbed."""

    job: Job
    events: int
    """Its changes of files"""
    files: dict[str, str]
    """Digests of the files that it wrote"""


def make_data(folder: Path) -> Path:
    """Write texts, and models that translate them."""
    data = write_data(folder)
    for name, lines in (("small", slice(0, 60)), ("mono", slice(60, 90))):
        for side in ("en", "fr"):
            chosen = (data / f"train.{side}").read_text().splitlines(keepends=True)[lines]
            (data / f"{name}.{side}").write_text("".join(chosen))
    for name, seed, sides in (("model", 1, ("fr", "en")), ("forward", 2, ("en", "fr")), ("other", 3, ("en", "fr"))):
        files = [data / f"{split}.{side}" for split in ("small", "valid") for side in sides]
        options = (*TINY, *(word for s in (*SETTINGS, f"train.seed={seed}") for word in ("--set", s)))
        done = run("train", *files[:2], "--valid", *files[2:], "--out", data / name, *options, cache=folder / "cache")
        if done.code:
            sys.exit(f"training fails: {done}")
    return data


def make_reference(job: Job, folder: Path) -> Undisturbed:
    """Run a job without a disturbance."""
    (folder / "out").mkdir(parents=True)
    done = run(*job.arguments(folder / "out"), cache=folder / "cache")
    if done.code:
        sys.exit(f"the undisturbed job fails: {done}")
    return Undisturbed(job, len(done.events), bundle_files(folder / "out"))


class Attempts:
    """One job, started again after each kill."""

    def __init__(self, reference: Undisturbed, folder: Path) -> None:
        self.reference, self.out, self.cache = reference, folder / "out", folder / "cache"
        self.out.mkdir(parents=True)
        self.done: list[Done] = []
        self.how: list[str] = []

    @property
    def ended(self) -> bool:
        return bool(self.done) and not self.done[-1].killed

    def start(self, trap: Trap | None = None) -> None:
        """Start or continue the job, to its end or until the trap kills it."""
        self.done.append(run(*self.reference.job.arguments(self.out), cache=self.cache, trap=trap))
        if trap and self.done[-1].killed:
            self.how.append(f"{trap.action} at event {trap.event} ({self.done[-1].events[-1]})")

    def outcomes(self) -> list[Outcome]:
        """Let the job end; return one outcome per kill."""
        if not self.ended:
            self.start()
        problems, verdict = left_over(self.out), "untidy"
        if different := different_files(self.reference.files, bundle_files(self.out)):
            problems, verdict = different, "DIFFERENT"
        if self.done[-1].code:
            problems, verdict = [str(self.done[-1])], "STUCK"
        if tracebacks := [str(done) for done in self.done if done.traceback]:
            problems, verdict = tracebacks, "TRACEBACK"
        verb = self.reference.job.verb
        problem = f"{verb}: {'; '.join(self.how)}: {'; '.join(problems)}" if problems else ""
        return [Outcome(verb, verdict if problems else "identical", problem) for done in self.done if done.killed]


def chain(reference: Undisturbed, case: Case, kills: int) -> list[Outcome]:
    """Kill a job again and again, each time further on; if it ends before the last kill, take another one."""
    random, outcomes = case.random(), list[Outcome]()
    for attempt in count():
        attempts = Attempts(reference, case.folder / str(attempt))
        while not attempts.ended and len(outcomes) + len(attempts.how) < kills:
            event = random.randint(1, max(2, 2 * reference.events // kills))
            attempts.start(Trap(event, random.choice(["kill", "cut"])))
        outcomes += attempts.outcomes()
        if len(outcomes) >= kills:
            return outcomes
    raise AssertionError


def work(references: dict[str, Undisturbed], case: Case) -> list[Outcome]:
    verb, kind, number = case.name.split(":")
    if kind == "chain":
        return chain(references[verb], case, int(number.partition("x")[2]))
    attempts = Attempts(references[verb], case.folder)
    attempts.start(Trap(int(number), kind))
    return attempts.outcomes()


def main() -> None:
    verbs = ("translate", "backtranslate", "rounds", "distill")
    args = parse_options(__doc__, n=40, recipes=verbs, every="instead of --n: once before each change of a file")
    with work_folder() as folder:
        data = make_data(folder / "data")
        references = {verb: make_reference(Job(verb, data), folder / verb) for verb in args.recipes}
        names = [
            f"{verb}:chain:{i}x{KILLS}" for verb in references for i in range(-(-args.n // KILLS // len(references)))
        ]
        if args.every:
            events = [(verb, event) for verb, each in references.items() for event in range(1, each.events + 1)]
            names = [f"{verb}:{'cut' if event % 2 else 'kill'}:{event}" for verb, event in events]
        run_cases(args, names, partial(work, references), folder, COLUMNS)


if __name__ == "__main__":
    main()
