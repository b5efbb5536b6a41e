"""Running a comparison: each model is trained and measured in its own process, and finished ones are reused."""

import json
import os
import traceback
from dataclasses import asdict, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import yaml

from regard.compare.measure import ResultRow, TestPlan, train_and_measure
from regard.compare.plan import ComparisonPlan
from regard.config import read_yaml
from regard.data.data_file import fingerprint_files
from regard.data.word_alignments import read_alignments
from regard.errors import UserError
from regard.files import write_atomically
from regard.train.recipe import Recipe
from regard.train.run import Run
from regard.train.signals import Stopped, stop_signals
from regard.train.tasks import get_task
from regard.train.tasks.base import TrainingFiles
from regard.visualize.curves import draw_curves

_RESULT_FILE = "measured.json"


def run_comparison(plan: ComparisonPlan) -> list[ResultRow]:
    """Train and measure each model. Return one row per model, in order; the row of a failed one has an `error`.

    Results of an earlier call with the same plan are read from its files.
    """
    test_set = plan.test.read()
    if plan.test.alignments:
        read_alignments(plan.test.alignments, len(test_set.sources))  # fails before anything is trained
    _prepare_folder(plan.out)
    contenders = plan.contenders()
    first_recipe = next((contender.recipe for contender in contenders if contender.recipe), None)
    if first_recipe is None:
        raise UserError(contenders[0].error)
    _check_budget(plan)
    tokenizer = _shared_tokenizer(plan, first_recipe)
    rows: list[ResultRow] = []
    for contender in contenders:
        row: ResultRow = {"error": contender.error}
        if contender.recipe:
            recipe = contender.recipe.model_copy(update={"tokenizer": first_recipe.tokenizer})
            run = Run(recipe, plan.train, plan.valid, contender.folder, device=plan.device, resume=True)
            row = _load_or_measure(plan, replace(run, tokenizer=tokenizer))
        rows.append({"model": contender.label, "folder": contender.folder.name, **row})
    return rows


def _prepare_folder(out: Path) -> None:
    """Create the folder. One that has other files than those of an earlier comparison is an error."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        usable = (out / "tokenizer" / "config.yaml").is_file() or not any(out.iterdir())
    except OSError as error:
        raise UserError(f"--out {out}: cannot create this folder ({error.strerror}); choose another") from None
    if not usable:
        raise UserError(f"--out {out}: has files that are not from a comparison; choose a new or empty folder")


def _check_budget(plan: ComparisonPlan) -> None:
    """Store the budget, or compare it with the stored one.

    All models in a folder must have the same budget. A finished one cannot be extended: training beyond the end of its
    learning rate schedule is not the same as training with a longer schedule.
    """
    path, budget = plan.out / "budget.json", {"updates": plan.updates, "seconds": plan.seconds}
    if path.is_file() and json.loads(path.read_bytes()) != budget:
        raise UserError(f"--out {plan.out}: was started with another --updates or --seconds; choose another folder")
    write_atomically(path, json.dumps(budget).encode())


def _shared_tokenizer(plan: ComparisonPlan, recipe: Recipe) -> Path:
    """Return the folder of the tokenizers of all models, trained once with the options of the first recipe."""
    folder = plan.out / "tokenizer"
    config_file = folder / "config.yaml"
    options = recipe.tokenizer.model_dump(mode="json")
    if config_file.is_file():
        if read_yaml(config_file) != options:
            raise UserError(
                f"--out {plan.out}: was started with other tokenizer options; put the same recipe first, "
                "or choose another folder"
            )
        return folder
    with get_task(recipe.task)(TrainingFiles(recipe, plan.train, plan.valid)) as task:
        task.train_tokenizers().save(folder)
    write_atomically(config_file, yaml.safe_dump(options, sort_keys=False).encode())
    return folder


def _load_or_measure(plan: ComparisonPlan, run: Run) -> ResultRow:
    """Return the stored result if nothing that it depends on has changed; otherwise train and measure."""
    path, key = run.out / _RESULT_FILE, _result_key(plan, run)
    stored: dict[str, Any] = json.loads(path.read_bytes()) if path.is_file() else {}
    if stored.get("key") == key and not plan.repeat:
        return stored["row"]
    row = _run_in_process(run, plan.test)
    if "error" not in row:
        row.setdefault("peak_memory", stored.get("row", {}).get("peak_memory"))
        write_atomically(path, (json.dumps({"key": key, "row": row}, indent=1) + "\n").encode())
    return row


def _result_key(plan: ComparisonPlan, run: Run) -> str:
    """Return a hash of everything that the result depends on."""
    test = asdict(plan.test)
    del test["files"], test["alignments"]
    options = f"{run.recipe.to_yaml()} {test} {len(plan.files)} {plan.valid is None}"
    return fingerprint_files(plan.files, options)


def _run_in_process(run: Run, test: TestPlan) -> ResultRow:
    """Call `train_and_measure` in a new process, so that the peak memory is that of one model alone."""
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_train_and_send, args=(run, test, sender))
    row: ResultRow | None = None
    with stop_signals() as stop:
        process.start()
        sender.close()
        try:
            terminated = False
            while not receiver.poll(0.2):
                if stop and not terminated:
                    process.terminate()  # it saves a checkpoint and exits
                    terminated = True
            row = receiver.recv()
        except EOFError:
            pass  # the process ended without sending a result
        finally:
            if row is None and process.is_alive():
                process.terminate()
            process.join()
    if stop:
        raise Stopped(stop.signal_number or 0, 0)
    return row or {"error": f"its process ended with exit code {process.exitcode}; it may have run out of memory"}


def _train_and_send(run: Run, test: TestPlan, sender: Connection) -> None:
    """Send the result or, as the row's `error`, why there is none. Runs in the new process."""
    os.setpgrp()  # Ctrl-C reaches only the parent, which passes it on once
    row: ResultRow
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
        row = {"error": f"{type(error).__name__}: {str(error).partition(chr(10))[0]} (see {path})"}
    sender.send(row)
