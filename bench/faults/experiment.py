"""What the experiments share: the runs that are disturbed, how results are compared, options, and the final table."""

import argparse
import hashlib
import json
import multiprocessing
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from command import Done, run

from regard.cli.app import VERBS
from regard.data.builtin.grammar_corpus import generate_corpus

COMMON = (
    *("train.steps=32", "train.lr=0.02", "train.warmup=5", "train.schedule=inverse-sqrt", "train.log_every=4"),
    *("train.save_every=3", "train.average=last", "train.average_k=3", "train.patience=0"),
    *("valid.every=8", "valid.sentences=4", "batch.tokens=256"),
)
_TRANSFORMER = ("tiny", "tokenizer.vocab_size=300", "model.d_model=16", "model.d_ff=32", "model.n_layers=1")
RECIPES = {
    # BPE-dropout, dropout and a moving average: a resumed run must repeat or restore each of them.
    "transformer": (
        *_TRANSFORMER,
        *("tokenizer.dropout=0.1", "model.dropout=0.1", "train.ema=0.9"),
    ),
    # Two tokenizers, and several batches per update.
    "rnn": (
        *("rnn-dot", "tokenizer.vocab_size=300", "tokenizer.joint=false", "train.accumulate=2"),
        *("model.encoder.d_model=16", "model.decoder.d_model=16"),
    ),
    # Characters: the tokenizer is a JSON file.
    "language-model": (
        *("gpt-cpu", "model.decoder.d_model=16", "model.decoder.d_ff=32", "model.decoder.n_layers=1"),
        "model.decoder.dropout=0.1",
    ),
    # Several language pairs in two stages, with changed texts: epochs and batches of a resumed run are planned again.
    "mixture": (*_TRANSFORMER, "tokenizer.vocab_size=400", "model.dropout=0.1"),
    # The parent's weights and words come from the run's own folder, and the adapters are saved beside the model.
    "lora": (*_TRANSFORMER, "model.dropout=0.1", "train.lora.rank=2"),
    # Other pairs have annotated terms in each epoch.
    "terms": (*_TRANSFORMER, "tokenizer.vocab_size=400", "glossary.share=0.5", "glossary.other_targets=0.3"),
}
"""Named recipe and options of the runs, each of which takes one to two seconds"""

MIXTURE = """
corpora:
  - {name: own, files: [few.en, few.fr], languages: en-fr, valid: [valid.en, valid.fr]}
  - {name: more, files: [train.en, train.fr], languages: en-fr, tag: "<bt>"}
  - {name: back, files: [few.fr, few.en], languages: fr-en, valid: [valid.fr, valid.en]}
stages: [first, second]
first: [own 2, back 1, until own 1]
second: [own 1, more 1, back 1, until more inf]
modifiers:
  - UpperCase: 0.1
  - RemoveEndPunct: 0.1
  - Typos: 0.2
"""
"""The file of corpora of the recipe `mixture`"""

TEXTS = ("the green witch arrived", "my dog sees the old houses", "a child sleeps")
RUN_FILES = re.compile(r"checkpoints|config\.yaml|metrics\.jsonl|curves\..*|complete|ballast|.*lock.*|\..*")
"""Files of a run's folder that are not part of the model directory"""


@dataclass(frozen=True)
class Training:
    """A training run, without the folder that it writes."""

    recipe: str
    data: Path
    seed: int = 1
    settings: tuple[str, ...] = ()

    def arguments(self, out: Path, resume: bool = False) -> list[object]:
        name, *options = RECIPES[self.recipe]
        settings = (*COMMON, *options, f"train.seed={self.seed}", *self.settings)
        chosen = [word for setting in settings for word in ("--set", setting)]
        return ["train", *self._inputs(), "--out", out, "--recipe", name, *chosen] + ["--resume"] * resume

    @property
    def parent(self) -> Path | None:
        """The model that training starts from"""
        return self.data / "parent" if self.recipe == "lora" else None

    def _inputs(self) -> list[object]:
        if self.recipe == "mixture":
            return ["--data", self.data / "mixture.yaml"]
        sides = ("en",) if self.recipe == "language-model" else ("en", "fr")
        train, valid = ([self.data / f"{split}.{side}" for side in sides] for split in ("train", "valid"))
        init = ["--init", self.parent] if self.parent else []
        links = ["--alignments", self.data / "train.links"] if self.recipe == "terms" else []
        return [*train, "--valid", *valid, *init, *links]

    def use(self, out: Path, cache: Path) -> Done:
        """Run the command that uses the model; its output depends on all weights."""
        if self.recipe == "language-model":
            options = ("--max-new-tokens", 20, "--beam", 3, "--n-best", 3)
            return run("generate", out, "--prompt", "the ", *options, cache=cache)
        to = ("--to", "fr") if self.recipe == "mixture" else ()
        return run("translate", out, "--json", *to, *(word for text in TEXTS for word in ("--text", text)), cache=cache)


@dataclass(frozen=True)
class Reference:
    """A run that nothing disturbed."""

    training: Training
    folder: Path
    done: Done
    files: dict[str, str]
    """Digests of the files of the model directory"""
    output: str
    """What the model answers"""

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    def verdict(self, out: Path, cache: Path) -> tuple[str, list[str]]:
        """Compare a run that has ended with this one; return "identical", "untidy" or "DIFFERENT", and the reasons."""
        used = self.training.use(out, cache)
        different = different_files(self.files, bundle_files(out))
        different += [] if (used.code, used.out) == (0, self.output) else [f"another output: {used}"]
        checked = run("verify", out, cache=cache) if "verify" in VERBS else None
        different += [str(checked)] if checked and checked.code else []
        repeated, same_validations = _compare_metrics(out, self.out)
        different += [] if same_validations else ["metrics.jsonl has other validations"]
        untidy = [*left_over(out), *left_over(cache), *repeated]
        return "DIFFERENT" if different else "untidy" if untidy else "identical", different + untidy


def make_reference(training: Training, folder: Path) -> Reference:
    """Train without a disturbance."""
    folder.mkdir(parents=True)
    out, cache = folder / "out", folder / "cache"
    if training.parent and not training.parent.exists():
        run(*Training("transformer", training.data).arguments(training.parent), cache=cache)
    done = run(*training.arguments(out), cache=cache)
    used = training.use(out, cache)
    if done.code or used.code:
        sys.exit(f"the undisturbed run fails: {done}; {used}")
    return Reference(training, folder, done, bundle_files(out), used.out)


def make_references(recipes: Sequence[str], folder: Path) -> dict[str, Reference]:
    """Train each recipe without a disturbance."""
    data = write_data(folder / "data")
    return {recipe: make_reference(Training(recipe, data), folder / recipe) for recipe in recipes}


def check_fork(reference: Reference, folder: Path) -> None:
    """Check that a run in a new process of its own gives the same files as the forked one."""
    out, cache = folder / "out", folder / "cache"
    command = [sys.executable, "-m", "regard", *map(str, reference.training.arguments(out))]
    subprocess.run(command, env={**os.environ, "REGARD_CACHE": str(cache)}, check=True, capture_output=True)
    if problems := different_files(reference.files, bundle_files(out)):
        sys.exit(f"a forked run differs from one in a process of its own: {problems}")


def write_data(folder: Path, seed: int = 1) -> Path:
    """Write a small parallel corpus and return its folder."""
    folder.mkdir(parents=True)
    for split, pairs in generate_corpus(400, 30, 1, seed=seed).items():
        for side, lines in (("en", [pair.src for pair in pairs]), ("fr", [pair.tgt for pair in pairs])):
            (folder / f"{split}.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            if split == "train":
                (folder / f"few.{side}").write_text("".join(f"{line}\n" for line in lines[::5]), encoding="utf-8")
    (folder / "train.links").write_text("0-0 1-1 2-2\n" * 400)
    (folder / "mixture.yaml").write_text(MIXTURE)
    return folder


def bundle_files(out: Path) -> dict[str, str]:
    """Return the digests of the files of a model directory, by name."""
    names = {str(path.relative_to(out)): path for path in sorted(out.rglob("*")) if path.is_file()}
    kept = {name: path for name, path in names.items() if not any(map(RUN_FILES.fullmatch, Path(name).parts))}
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in kept.items()}


def different_files(one: dict[str, str], other: dict[str, str]) -> list[str]:
    return [f"{name} differs" for name in sorted(one.keys() | other.keys()) if one.get(name) != other.get(name)]


def checkpoint_steps(out: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("step-")) for path in (out / "checkpoints").glob("step-*"))


def left_over(folder: Path) -> list[str]:
    return [f"{path} is left over" for name in (".*.tmp", ".new") for path in sorted(folder.rglob(name))]


def _compare_metrics(out: Path, reference: Path) -> tuple[list[str], bool]:
    """Say whether metrics.jsonl has rows twice, and return whether its validations are those of the reference."""
    rows, expected = ([json.loads(line) for line in (folder / "metrics.jsonl").open()] for folder in (out, reference))
    counts = Counter((row["step"], *sorted(row)) for row in rows)
    twice = sorted({key[0] for key, n in counts.items() if n > 1})
    validations, wanted = ({row["step"]: row for row in part if "valid_loss" in row} for part in (rows, expected))
    return [f"metrics.jsonl has rows of steps {twice} twice"] if twice else [], validations == wanted


# ---- Cases, in parallel, and what they found ----


@dataclass(frozen=True)
class Outcome:
    """What happened in one case: it counts in a row and a column of the final table."""

    row: str
    column: str
    problem: str = ""
    """What is wrong, and what was done; empty if all is as it must be"""


@dataclass(frozen=True)
class Case:
    name: str
    """Tells the case from all others; with the seed, it gives all its random choices"""
    seed: int
    folder: Path

    def random(self) -> Random:
        return Random(f"{self.seed} {self.name}")


def parse_options(
    description: str | None, n: int, recipes: Sequence[str] = tuple(RECIPES), **flags: str
) -> argparse.Namespace:
    """Read the options that all experiments have, and flags of one of them, given as name=help."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--n", type=int, default=n, help=f"number of disturbances [default: {n}]")
    parser.add_argument("--seed", type=int, default=1, help="of all random choices")
    parser.add_argument("--jobs", type=int, default=1, help="processes that work at the same time")
    parser.add_argument("--recipes", nargs="+", choices=recipes, default=recipes, help="runs to disturb")
    parser.add_argument("--only", metavar="CASE", help="repeat one case, and keep its folder")
    parser.add_argument("--no-curves", action="store_true", help="quicker: as if matplotlib were not installed")
    for name, text in flags.items():
        parser.add_argument(f"--{name}", action="store_true", help=text)
    args = parser.parse_args()
    if args.no_curves:
        sys.modules["matplotlib"] = None  # type: ignore[assignment]  # which makes it impossible to import
    return args


@contextmanager
def work_folder() -> Iterator[Path]:
    """Make a folder, in memory if possible; it is deleted at the end."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="regard-faults-", dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder).resolve()


def run_cases(
    args: argparse.Namespace,
    names: Sequence[str],
    work: Callable[[Case], list[Outcome]],
    folder: Path,
    columns: Sequence[str],
) -> None:
    """Do the work for each case, print what is wrong with its reproduction, and a table; exit with 1 if anything is."""
    cases = [Case(name, args.seed, folder / "cases" / name) for name in names if args.only in (None, name)]
    if not cases:
        sys.exit(f"--only {args.only}: there is no such case; there are {names[0]} … {names[-1]}")
    counts: Counter[tuple[str, str]] = Counter()
    wrong = 0
    with multiprocessing.get_context("fork").Pool(args.jobs) as pool:
        for done, (name, outcomes) in enumerate(pool.imap_unordered(partial(_work, work, bool(args.only)), cases), 1):
            for outcome in outcomes:
                counts[outcome.row, outcome.column] += 1
            problems = dict.fromkeys(outcome.problem for outcome in outcomes if outcome.problem)
            wrong += len(problems)
            for problem in problems:
                problem = problem.replace(f"{folder / 'cases' / name}/", "")
                print(f"WRONG {problem}\n      again: python {shlex.join(sys.argv)} --only {name}", flush=True)
            if sys.stderr.isatty():
                print(f"\r{done} of {len(cases)}", end="", file=sys.stderr)
    if args.only:
        kept = Path(tempfile.mkdtemp(prefix=f"{args.only}-"))
        shutil.copytree(cases[0].folder, kept, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns("fifo"))
        print(f"the folder of the case: {kept}")
    print_table(counts, columns)
    sys.exit(1 if wrong else 0)


def _work(work: Callable[[Case], list[Outcome]], keep: bool, case: Case) -> tuple[str, list[Outcome]]:
    case.folder.mkdir(parents=True)
    outcomes = work(case)
    if not keep:
        shutil.rmtree(case.folder)
    return case.name, outcomes


def print_table(counts: Counter[tuple[str, str]], columns: Sequence[str]) -> None:
    """Print how often each outcome occurred, as a Markdown table."""
    rows = list(dict.fromkeys(row for row, _ in counts))
    lines = [["", "n", *columns], ["---"] * (len(columns) + 2)]
    for row in rows:
        lines.append(
            [row, str(sum(n for (r, _), n in counts.items() if r == row)), *(str(counts[row, c]) for c in columns)]
        )
    total = [sum(n for (_, column), n in counts.items() if column == c) for c in columns]
    lines.append(["all", str(sum(counts.values())), *map(str, total)])
    for line in lines:
        print(f"| {' | '.join(line)} |")


def evenly(items: Sequence[Any], n: int) -> list[Any]:
    """Return at most n of the items, at equal distances."""
    n = min(n, len(items))
    return [items[i * len(items) // n] for i in range(n)]
