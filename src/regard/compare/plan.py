"""Several recipes on the same data, under the same budget, with the same tokenizer, each in a process of its own."""

import hashlib
import json
import os
import re
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import yaml

from regard.compare.run import Row, Test, train_and_measure
from regard.config import merge, overrides, read_yaml
from regard.data.corpus import fingerprint_files
from regard.data.word_alignments import read_alignments
from regard.errors import UserError
from regard.files import write_atomically
from regard.train.recipe import Recipe, recipe_folder, recipe_names
from regard.train.run import Run
from regard.train.signals import Stopped, stop_signals
from regard.train.tasks import task_named
from regard.train.tasks.base import Files
from regard.visualize.curves import draw_curves

_UNBOUNDED = 10**9  # updates, where seconds are the bound
_ROW = "measured.json"


@dataclass(frozen=True)
class ComparisonPlan:
    """What is compared, on what, and how long each may train: so many updates, or so many seconds."""

    entrants: tuple[str, ...]
    """Recipe names or YAML files, each with settings of its own behind it: `tiny+model.positions=rotary`"""
    train: tuple[Path, ...]
    valid: tuple[Path, ...] | None
    test: Test
    out: Path
    updates: int | None = None
    seconds: float | None = None
    settings: tuple[str, ...] = ()
    """Of all (`train.lr=1e-3`) or of one (`tiny:train.lr=1e-3`)"""
    device: str | None = None
    repeat: bool = False
    """Whether finished models are measured again"""

    def __post_init__(self) -> None:
        if (self.updates is None) == (self.seconds is None):
            raise UserError("say how long each model may train: --updates N or --seconds S")
        if not self.entrants:
            raise UserError("--recipes: name at least one, for example --recipes tiny,small")


@dataclass(frozen=True)
class Entrant:
    label: str
    folder: Path
    recipe: Recipe | None
    error: str = ""


def run_comparison(plan: ComparisonPlan) -> list[Row]:
    """Train and measure each → a row each, in their order, with `error` in the rows of those that failed.

    What an earlier call finished is taken from its files.
    """
    test_set = plan.test.read()
    if plan.test.alignments:
        read_alignments(plan.test.alignments, len(test_set.sources))  # refused before anything is trained
    _claim(plan.out)
    entrants = [_entrant(plan, label) for label in dict.fromkeys(plan.entrants)]
    first = next((entrant.recipe for entrant in entrants if entrant.recipe), None)
    if first is None:
        raise UserError(entrants[0].error)
    _hold_budget(plan)
    tokenizer = _shared_tokenizer(plan, first)
    rows = []
    for entrant in entrants:
        row: Row = {"error": entrant.error}
        if entrant.recipe:
            recipe = entrant.recipe.model_copy(update={"tokenizer": first.tokenizer})
            run = Run(recipe, plan.train, plan.valid, entrant.folder, device=plan.device, resume=True)
            row = _row(plan, replace(run, tokenizer=tokenizer))
        rows.append({"model": entrant.label, "folder": entrant.folder.name, **row})
    return rows


def split_entrants(text: str) -> list[str]:
    """`tiny,rnn-dot+model.x=[1,2]` → its two parts: a comma inside brackets belongs to a value."""
    return [part.strip() for part in re.split(r",(?![^\[{]*[\]}])", text) if part.strip()]


def _entrant(plan: ComparisonPlan, label: str) -> Entrant:
    name, *varied = _parts(label)
    safe = re.sub(r"[^\w.=+-]+", "_", label).strip(".")
    if safe != label:  # two labels may look alike without what a folder's name cannot have
        safe += f"-{hashlib.sha256(label.encode()).hexdigest()[:6]}"
    folder = plan.out / (safe if safe != "tokenizer" else "tokenizer-model")
    shared, given = _settings_of(plan, name, label)
    own = [*given, *varied]
    try:
        if refused := next((setting for setting in own if setting.startswith("tokenizer.")), None):
            raise UserError(f"{refused}: all models share one tokenizer; write --set {refused} for all of them")
        recipe = _recipe(name, [*_budget(plan), *shared, *own])
        if recipe.task != "translate":
            raise UserError(f"{name} is for the task {recipe.task}; compare takes recipes for translation")
    except UserError as error:
        return Entrant(label, folder, None, str(error))
    return Entrant(label, folder, recipe)


def _budget(plan: ComparisonPlan) -> list[str]:
    if plan.updates is not None:
        limits = [f"train.steps={plan.updates}", f"train.log_every={min(50, max(1, plan.updates // 5))}"]
    else:
        limits = [f"train.steps={_UNBOUNDED}", f"train.seconds={plan.seconds}", "train.log_every=10"]
    return [*limits, "train.patience=0"]  # all of the budget is used


def _settings_of(plan: ComparisonPlan, name: str, label: str) -> tuple[list[str], list[str]]:
    """The settings of all, and those given as `NAME:key=value` to this one"""
    shared, own = [], []
    for setting in plan.settings:
        owner = next((x for e in plan.entrants for x in (e, _parts(e)[0]) if setting.startswith(f"{x}:")), None)
        if owner is None:
            shared.append(setting)
        elif owner in (name, label):
            own.append(setting.removeprefix(f"{owner}:"))
    return shared, own


def _parts(label: str) -> list[str]:
    """`tiny+model.n_layers=1+train.lr=1e+0` → the name and each setting"""
    return re.split(r"\+(?=[A-Za-z_][\w.]*=)", label)


def _recipe(name: str, settings: Sequence[str]) -> Recipe:
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise UserError(f"--recipes {name}: no such file")
    elif name in recipe_names():
        path = recipe_folder() / f"{name}.yaml"
    else:
        raise UserError(f"--recipes {name}: unknown; choose of {', '.join(recipe_names())}, or give a .yaml file")
    return Recipe.parse(merge(read_yaml(path), overrides(settings)), where=name)


def _claim(out: Path) -> None:
    """Make the folder; nothing may be in it but an earlier comparison."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        ours = (out / "tokenizer" / "config.yaml").is_file() or not any(out.iterdir())
    except OSError as error:
        raise UserError(f"{out}: cannot be made a folder ({error.strerror})") from None
    if not ours:
        raise UserError(f"{out}: holds files that are not of a comparison; choose a new or empty folder as --out")


def _hold_budget(plan: ComparisonPlan) -> None:
    """A folder has one budget: a model that goes on behind its schedule's end is not one that was trained longer."""
    path, now = plan.out / "budget.json", {"updates": plan.updates, "seconds": plan.seconds}
    if path.is_file() and json.loads(path.read_bytes()) != now:
        raise UserError(f"{plan.out}: was begun with another budget of updates or seconds; choose another --out")
    write_atomically(path, json.dumps(now).encode())


def _shared_tokenizer(plan: ComparisonPlan, recipe: Recipe) -> Path:
    """The folder of the tokenizers that all models use: learnt as the first recipe says, once."""
    folder = plan.out / "tokenizer"
    about = folder / "config.yaml"
    options = recipe.tokenizer.model_dump(mode="json")
    if about.is_file():
        if read_yaml(about) != options:
            raise UserError(
                f"{plan.out}: was begun with other tokenizer options; name the recipe that was first, or change --out"
            )
        return folder
    task_named(recipe.task).tokenizers(Files(recipe, plan.train, plan.valid)).save(folder)
    write_atomically(about, yaml.safe_dump(options, sort_keys=False).encode())
    return folder


def _row(plan: ComparisonPlan, run: Run) -> Row:
    """What an earlier call measured under the same circumstances, or what a process of its own measures now."""
    path, key = run.out / _ROW, _circumstances(plan, run)
    earlier: dict[str, Any] = json.loads(path.read_bytes()) if path.is_file() else {}
    if earlier.get("key") == key and not plan.repeat:
        return earlier["row"]
    row = _apart(run, plan.test)
    if "error" not in row:
        row.setdefault("peak_memory", earlier.get("row", {}).get("peak_memory"))
        write_atomically(path, (json.dumps({"key": key, "row": row}, indent=1) + "\n").encode())
    return row


def _circumstances(plan: ComparisonPlan, run: Run) -> str:
    """A hash of all that decides what would be measured."""
    test = asdict(plan.test)
    files = [*plan.train, *(plan.valid or ()), *plan.test.files, *([plan.test.alignments] * bool(plan.test.alignments))]
    del test["files"], test["alignments"]
    how = f"{run.recipe.to_yaml()} {test} {len(files)} {plan.valid is None}"
    return fingerprint_files([file for file in files if file is not None], how)


def _apart(run: Run, test: Test) -> Row:
    """`train_and_measure` in a new process, so that the memory of one model is not counted as another's."""
    context = get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(run, test, sending))
    row: Row | None = None
    with stop_signals() as stop:
        process.start()
        sending.close()
        try:
            told = False
            while not receiving.poll(0.2):
                if stop and not told:
                    process.terminate()  # it saves and leaves
                    told = True
            row = receiving.recv()
        except EOFError:
            pass  # it died without a word
        finally:
            if row is None and process.is_alive():
                process.terminate()
            process.join()
    if stop:
        raise Stopped(stop.signal_number or 0, 0)
    return row or {"error": f"its process ended with code {process.exitcode}; perhaps memory ran out"}


def _work(run: Run, test: Test, answer: Connection) -> None:
    os.setpgrp()  # Ctrl-C reaches the parent alone, which passes it on once
    try:
        row = train_and_measure(run, test)
        draw_curves(run.out)
    except UserError as error:
        row = {"error": str(error)}
    except Stopped:
        row = {"error": "stopped"}
    except Exception as error:
        path = run.out / "error.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, traceback.format_exc().encode())
        row = {"error": f"{type(error).__name__}: {str(error).partition(chr(10))[0]} (more in {path})"}
    answer.send(row)
