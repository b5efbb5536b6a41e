"""Send Ctrl-C, SIGTERM and SIGHUP to training runs at random moments, once and twice, and resume them.

    python bench/faults/signals.py --n 50

The last line of the run must say that it saved, or that there is nothing to save yet, and its exit code must be 128
plus the number of the signal. A second signal 0.3 seconds later must not discard anything. The resumed run must end
with the same files as an undisturbed one.
"""

import signal
from functools import partial

from command import Command, Done, run
from experiment import Case, Outcome, Reference, make_references, parse_options, run_cases, work_folder

COLUMNS = ("saved", "nothing to save", "finished", "WRONG")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AGAIN = 0.3
"""Seconds between two signals"""
BEFORE_TRAINING = ("start", "tokenizer", "store")
AFTER_TRAINING = ("averaging", "bundle", "curves")


def work(references: dict[str, Reference], case: Case) -> list[Outcome]:
    random = case.random()
    reference = references[random.choice(sorted(references))]
    number, repeated = random.choice(SIGNALS), random.random() < 0.5
    event, seconds = random.randint(1, len(reference.done.events)), 0.1 * random.random()
    out, cache = case.folder / "out", case.folder / "cache"
    command = Command(*reference.training.arguments(out), cache=cache)
    sent = command.wait_for_event(event) and command.running(seconds)
    if sent:
        command.record_stack()
        command.send(number)
    if repeated and command.running(AGAIN):
        command.send(number)
    done = command.wait()
    again = run(*reference.training.arguments(out, resume=True), cache=cache)
    column, problems = judge(done, number) if sent else ("finished", [])
    problems += [str(again)] if again.code else reference.verdict(out, cache)[1]
    row = f"{number.name}{', twice' if repeated else ''}"
    message = (
        f"{reference.training.recipe}: {row} {seconds:.3f} s after event {event} ({done.phase}): {'; '.join(problems)}"
    )
    return [Outcome(row, "WRONG" if problems else column, message if problems else "")]


def judge(done: Done, number: signal.Signals) -> tuple[str, list[str]]:
    """Return the column of the table, and what is wrong with how the run ended."""
    if done.code == 0:
        return "finished", [] if done.phase in AFTER_TRAINING else [f"the signal had no effect: {done}"]
    if done.code != 128 + number or done.traceback or not done.line.startswith("regard: "):
        return "WRONG", [f"not exit code {128 + number} and a line at the end: {done}"]
    if "saved" in done.line:
        return "saved", []
    return "nothing to save", [] if done.phase in BEFORE_TRAINING else [f"does not say that it saved: {done}"]


def main() -> None:
    args = parse_options(__doc__, n=50)
    with work_folder() as folder:
        references = make_references(args.recipes, folder)
        names = [f"signal-{i}" for i in range(args.n)]
        run_cases(args, names, partial(work, references), folder, COLUMNS)


if __name__ == "__main__":
    main()
