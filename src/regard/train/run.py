"""A training run: from data files and a recipe to a model directory."""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from regard import models
from regard.alignment.from_attention import Aligner
from regard.bundle import Bundle, load_tokenizers
from regard.config import flatten, merge, read_yaml
from regard.data.data_file import without_compression
from regard.data.pair_readers import named_languages
from regard.errors import UserError
from regard.evaluate.validation import Validation
from regard.files import remove_leftovers, write_atomically
from regard.lock import FolderLock, lock_folder
from regard.manifest import read_regular
from regard.models.weights import load_matching, load_weights
from regard.pipelines.base import device_named
from regard.text.seen_words import SeenWords
from regard.text.tokenizer import TokenizerPair
from regard.train.advice import ValidationPoint, advise
from regard.train.auto_recipe import AutoRecipe, describe_plan
from regard.train.average import average_checkpoints
from regard.train.checkpoint import Checkpoints
from regard.train.corpus_facts import measure_corpus
from regard.train.determinism import prepare_cublas
from regard.train.log import RunLog, read_metrics
from regard.train.model_card import model_card
from regard.train.progress import Progress
from regard.train.recipe import Recipe
from regard.train.rehearsal import rehearsal
from regard.train.tasks import get_task
from regard.train.tasks.base import Task, TaskData, TrainingFiles
from regard.train.tasks.pairs import PairTask
from regard.train.trainer import Trainer

_CONFIG_HEADER = "# The resolved recipe of this run of regard."

_COMPLETE = "complete"
"""File in the folder of the tokenizers with their fingerprint, written when they are complete"""

_LINK_THRESHOLD = 0.25
"""Share of a target word's attention from which a guided head links it to a source word"""

_MAY_DIFFER = {
    *("train.steps", "train.seconds", "train.patience", "train.log_every", "train.tensorboard"),
    *("train.save_every", "train.save_minutes", "batch.workers"),
}
"""Options that may change when a run is resumed; `train.steps` not if the learning rate depends on it"""


@dataclass(frozen=True)
class Run:
    """A recipe, data files and an output folder."""

    recipe: Recipe
    train: tuple[Path, ...]
    valid: tuple[Path, ...] | None
    out: Path
    languages: tuple[str, str] | None = None
    """Language codes of the two sides; by default from the file names"""
    tokenizer: Path | None = None
    """A folder of trained tokenizers to use"""
    alignments: Path | None = None
    """Word alignments of the training pairs for guided alignment"""
    device: str | None = None
    resume: bool = False
    """Continue the run in `out`, if there is one"""
    allow_inexact: bool = False
    auto: AutoRecipe | None = None
    """Choose the recipe by the training data; `recipe` is then not used, except for its task"""

    @property
    def files(self) -> TrainingFiles:
        return TrainingFiles(self.recipe, self.train, self.valid, self.languages, self.alignments)


@dataclass(frozen=True)
class TrainingResult:
    folder: Path
    progress: Progress
    validation: Validation
    """Of the weights that were saved"""


def train(run: Run) -> TrainingResult:
    """Train, average checkpoints and save a bundle in `run.out`. Raises Stopped when a signal ends the run early.

    No other process can train in the same folder at the same time.
    """
    task_class = get_task(run.recipe.task)
    task_class.check(run.recipe)
    if run.alignments and (run.recipe.task != "translate" or run.recipe.model.kind == "decoder"):
        raise UserError("--alignments are for translators with an encoder; leave them out")
    if run.auto and run.recipe.task != "translate":
        raise UserError(f"the recipe auto is for translation, not for task {run.recipe.task}; see --recipe")
    start = time.monotonic()
    with lock_folder(run.out) as lock:
        minutes = run.auto.minutes if run.auto else None
        run = _with_saved_recipe(run)
        _prepare_folder(run)
        with RunLog(run.out, run.recipe.train.tensorboard) as log:
            if minutes is not None and run.auto is None:
                log.info("the run keeps the recipe and the time that it began with; --minutes has no effect")
            try:
                with task_class(run.files) as task:
                    run = _choose_recipe(run, task, log, start)
                    tokenizers, data, words = _load_data(run, task, log)
                return _train(run, tokenizers, data, words, log, lock)
            except KeyboardInterrupt:
                newest = next(Checkpoints(run.out / "checkpoints", keep=1).newest(), None)
                where = f"from {newest.path.name}" if newest else "from the beginning"
                log.info(f"interrupted; add --resume to continue {where}")
                raise


def _with_saved_recipe(run: Run) -> Run:
    """For a resumed run that chose its recipe, return the run with that recipe and what the user has set now."""
    path = run.out / "config.yaml"
    if run.auto is None or not run.resume or not path.exists():
        return run
    tree = merge(read_yaml(path), run.auto.user_options())
    return replace(run, recipe=Recipe.parse(tree, where=str(path)), auto=None)


def _choose_recipe(run: Run, task: Task, log: RunLog, start: float) -> Run:
    """Choose the recipe of a run with `auto` by its training data; write the recipe of any run to its folder."""
    if run.auto is not None:
        assert isinstance(task, PairTask)
        log.doing("reading the data")
        task.check_size()
        facts = measure_corpus(task.train_corpus)
        log.doing("measuring the speed of this machine")
        device = device_named(run.device)
        plan = run.auto.plan(facts, device, time.monotonic() - start)
        for line in describe_plan(plan, device, run.auto.user_options()):
            log.info(line)
        run = replace(run, recipe=run.auto.load(plan.options()))
        task.use(run.recipe)
    write_atomically(run.out / "config.yaml", f"{_CONFIG_HEADER}\n{run.recipe.to_yaml()}".encode())
    return run


def _load_data(run: Run, task: Task, log: RunLog) -> tuple[TokenizerPair, TaskData, SeenWords | None]:
    """Read and tokenise the data, while kernels are compiled."""
    log.doing("reading the data")
    with rehearsal(run.recipe, device_named(run.device)):
        tokenizers = _tokenizers(run, task, log)
        log.doing("tokenising the data")
        return tokenizers, task.load_data(tokenizers, run.out, log), task.count_words()


def _train(
    run: Run, tokenizers: TokenizerPair, data: TaskData, words: SeenWords | None, log: RunLog, lock: FolderLock
) -> TrainingResult:
    languages = run.languages or find_languages(run.train)
    trainer = _make_trainer(run, data, tokenizers, log, lock)
    progress = trainer.restore(run.allow_inexact) if run.resume else trainer.begin()
    progress = trainer.train(progress)
    log.doing("averaging and validating the best checkpoints")
    weights, validation = _load_best_weights(run, trainer)
    recipe = run.recipe
    bundle = Bundle(
        trainer.model,
        recipe.model,
        tokenizers,
        languages,
        recipe.decode,
        recipe.task,
        recipe.batch.context,
        _guided_aligner(trainer) if run.alignments else Aligner(),
        tuple(source for source, *_ in validation.samples) if recipe.task == "translate" else (),
        words,
    )
    lock.check()
    bundle.save(run.out, model_card(recipe, languages, trainer, progress, validation, weights))
    log.info(f"kept {weights}: validation {validation.describe()}")
    if advice := _advice(run, log):
        log.info(advice)
    return TrainingResult(run.out, progress, validation)


def _advice(run: Run, log: RunLog) -> str:
    """Return what would give a better model, if the recipe was chosen and the time did not limit it."""
    if run.auto is None or run.recipe.train.seconds is not None:
        return ""
    rows = [row for row in read_metrics(log.path) if "valid_loss" in row and row.get("bleu") is not None]
    return advise([ValidationPoint(row["valid_loss"], row["bleu"]) for row in rows], run.recipe.train.steps)


def _guided_aligner(trainer: Trainer) -> Aligner:
    """Return an aligner that reads the links from the guided head."""
    guide = trainer.config.guide
    n_layers = len(trainer.model.attention_modules("cross"))
    return Aligner(layer=guide.resolve_layer(n_layers), head=guide.head, threshold=_LINK_THRESHOLD)


def find_languages(files: Sequence[Path]) -> tuple[str, str]:
    """Return the languages of files such as train.en and train.fr.gz, those in a file of pairs, or ("src", "tgt")."""
    if len(files) == 1 and (named := named_languages(files[0])):
        return named
    suffixes = [without_compression(path).suffix.removeprefix(".") for path in files]
    if len(suffixes) == 2 and all(2 <= len(s) <= 3 and s.isalpha() for s in suffixes) and len(set(suffixes)) == 2:
        return suffixes[0], suffixes[1]
    return "src", "tgt"


def _prepare_folder(run: Run) -> None:
    """Check that the run may use the output folder; for a resumed run, that its recipe is the same."""
    path = run.out / "config.yaml"
    if not _may_write(run.out):
        raise UserError(f"{run.out}: holds files that are not from a run; choose a new or empty folder as --out")
    started = any((run.out / "checkpoints").glob("step-*")) or (run.out / "model.safetensors").is_file()
    if started and not run.resume:
        raise UserError(f"{run.out}: already holds a run; add --resume to continue it, or choose another --out")
    if run.resume and path.exists():
        _check_same_options(read_yaml(path), run.recipe)
    checkpoints = run.out / "checkpoints"
    for folder in (run.out, run.out / "tokenizer", checkpoints, *checkpoints.glob("step-*")):
        remove_leftovers(folder, exclusive=True)


def _may_write(folder: Path) -> bool:
    """Return whether the folder is that of a run, or has no files that a run would overwrite."""
    config = folder / "config.yaml"
    if config.exists():
        return read_regular(config).startswith(_CONFIG_HEADER.encode())
    return not any((folder / name).exists() for name in ("README.md", "config.json", "model.safetensors"))


def _check_same_options(saved: dict[str, Any], recipe: Recipe) -> None:
    """Raise a UserError if a resumed run has other options that influence its result."""
    before, now = flatten(saved), flatten(recipe.model_dump(mode="json"))
    follows_steps = recipe.train.schedule == "cosine"
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) == now.get(name):
            continue
        change = f"--resume: {name} was {before.get(name)} when the run began and is {now.get(name)} now"
        if name == "train.steps" and follows_steps:
            raise UserError(f"{change}, but train.schedule=cosine depends on it; give the same, or another --out")
        if name not in _MAY_DIFFER:
            raise UserError(f"{change}; give the same options, or choose another --out")


def _identity(recipe: Recipe) -> str:
    """Return a hash of the options that influence the result, which checkpoints of the same run have in common."""
    options = flatten(recipe.model_dump(mode="json"))
    return hashlib.sha256(repr(sorted((k, v) for k, v in options.items() if k not in _MAY_DIFFER)).encode()).hexdigest()


def _tokenizers(run: Run, task: Task, log: RunLog) -> TokenizerPair:
    """Return the tokenizers of a run: its own if it is resumed, given ones, those of `train.init`, or new ones.

    If those of a resumed run are damaged they are made again. Whether they are the same as before is checked with the
    data, whose fingerprint depends on them.
    """
    folder = run.out / "tokenizer"
    if run.resume and (folder / _COMPLETE).exists():
        if pair := _read_complete(folder):
            return pair
        log.info(f"{folder}: damaged, so the tokenizer is made again")
    log.doing("making the tokenizer")
    pair = TokenizerPair.load(run.tokenizer) if run.tokenizer else task.train_tokenizers()
    if run.recipe.train.init:
        start = load_tokenizers(run.recipe.train.init)
        # The labels of a classifier come from its data.
        pair = TokenizerPair(start.src, pair.tgt) if run.recipe.task == "classify" else start
    pair.save(folder)
    write_atomically(folder / _COMPLETE, pair.fingerprint.encode())
    sizes = f"{pair.tgt.size:,}" if pair.joint else f"{pair.src.size:,} and {pair.tgt.size:,}"
    log.info(f"tokenizer: {sizes} pieces{', joint' if pair.joint else ''}")
    return pair


def _read_complete(folder: Path) -> TokenizerPair | None:
    """Return the tokenizers of a run, or None if they are not those that were saved."""
    try:
        pair, fingerprint = TokenizerPair.load(folder), read_regular(folder / _COMPLETE)
    except UserError:
        return None
    return pair if pair.fingerprint.encode() == fingerprint else None


def _make_trainer(run: Run, data: TaskData, tokenizers: TokenizerPair, log: RunLog, lock: FolderLock) -> Trainer:
    recipe = run.recipe
    torch.manual_seed(recipe.train.seed)
    src_size = None if tokenizers.joint else tokenizers.src.size
    device = device_named(run.device)
    if recipe.train.deterministic and device.type == "cuda":
        prepare_cublas()
    if device.index is not None:  # cuda:1; plain cuda is the current device
        torch.cuda.set_device(device)  # streams and graphs belong to the current device
    model = models.build(recipe.model, tokenizers.tgt.size, src_size).to(device)
    checkpoints = Checkpoints(run.out / "checkpoints", recipe.train.average_k, lock, _identity(recipe))
    if recipe.train.init and not (run.resume and checkpoints.all()):
        _load_initial_weights(recipe.train.init, model, tokenizers, log)
    log.info(f"model: {recipe.model.kind}, {sum(p.numel() for p in model.parameters()):,} parameters, on {device}")
    return Trainer(model, data.batches, data.validator, checkpoints, log, recipe.train)


def _load_initial_weights(init: Path, model: models.Model, tokenizers: TokenizerPair, log: RunLog) -> None:
    bundle = Bundle.load(init)
    # The output layer belongs to the target tokens and is of no use for others.
    other_targets = bundle.tokenizers.tgt.to_bytes() != tokenizers.tgt.to_bytes()
    n = load_matching(model, bundle.model, leave_out=("output.",) if other_targets else ())
    log.info(f"starts from {init}: {n:,} weights")


def _load_best_weights(run: Run, trainer: Trainer) -> tuple[str, Validation]:
    """Load the weights that validate best, of the best checkpoint or of the mean that the recipe names.

    Returns a description of the weights and their validation.
    """
    config, checkpoints = run.recipe.train, _undamaged(trainer)
    trainer.ema = None  # the loaded weights are already averaged
    best = checkpoints.best(1)
    choices = {f"the checkpoint of step {best[0].step}": best}
    if config.average != "none":
        chosen = checkpoints.last(config.average_k) if config.average == "last" else checkpoints.best(config.average_k)
        choices[f"the mean of the {len(chosen)} {config.average} checkpoints"] = chosen
    candidates = []
    for name, group in choices.items():
        weights = average_checkpoints(group)
        load_weights(trainer.model, weights, name)
        candidates.append((trainer.validate(), name, weights))
    validation, name, weights = max(candidates, key=lambda candidate: candidate[0].order)
    load_weights(trainer.model, weights, name)
    return name, validation


def _undamaged(trainer: Trainer) -> Checkpoints:
    """Return the checkpoints of a run without damaged ones, which are named."""
    problems, damaged = trainer.checkpoints.damaged(), set()
    for checkpoint in trainer.checkpoints.all():
        try:
            checkpoint.tensors()
            trainer.check_same_data(checkpoint)
        except UserError as error:
            problems.append(str(error))
            damaged.add(checkpoint.step)
    for problem in problems:
        trainer.log.info(f"not used: {problem}")
    checkpoints = trainer.checkpoints.without(damaged)
    if not checkpoints.best(1):
        raise UserError(f"{checkpoints.folder}: no validated checkpoint can be used; restore one, or train again")
    return checkpoints
