"""A training run: from data files and a recipe to a model directory."""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from regard import models
from regard.alignment.from_attention import Aligner
from regard.bundle import Bundle, load_tokenizers
from regard.config import merge, read_yaml
from regard.data.mixture import Mixture
from regard.data.pair_readers import find_languages
from regard.data.prepared.corpus import prepared_languages
from regard.errors import UserError
from regard.evaluate.validation import Validation
from regard.files import write_atomically
from regard.lock import FolderLock, lock_folder
from regard.manifest import read_regular
from regard.models.adapters import merge_adapters
from regard.models.weights import trained_weights, weights_of
from regard.pipelines.base import device_named
from regard.text.direction import Directions
from regard.text.seen_words import SeenWords
from regard.text.term_annotation import SYMBOLS
from regard.text.tokenizer import TokenizerPair
from regard.train.adapter import FOLDER as ADAPTER
from regard.train.adapter import AdapterConfig, save_adapter
from regard.train.advice import ValidationPoint, advise
from regard.train.auto_recipe import AutoRecipe, describe_plan
from regard.train.best_weights import load_best_weights
from regard.train.checkpoint import Checkpoints
from regard.train.determinism import prepare_cublas
from regard.train.init_tokenizer import TokenizerChoice, choose_tokenizers
from regard.train.log import RunLog, SilentLog, read_metrics
from regard.train.model_card import model_card
from regard.train.parent import FOLDER as PARENT
from regard.train.parent import Parent, prepare_model, transfer_warning
from regard.train.progress import Progress
from regard.train.ranks import Ranks, join_ranks, rank_device
from regard.train.recipe import Recipe
from regard.train.rehearsal import rehearsal
from regard.train.run_folder import identity, is_restarted, prepare_folder, save_recipe, saved_recipe
from regard.train.tasks import get_task
from regard.train.tasks.base import Task, TaskData, TrainingFiles
from regard.train.tasks.pairs import PairTask
from regard.train.trainer import Trainer

_COMPLETE = "complete"
"""File in the folder of the tokenizers with their fingerprint, written when they are complete"""

_LINK_THRESHOLD = 0.25
"""Share of a target word's attention from which a guided head links it to a source word"""


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
    """Word alignments of the training pairs for guided alignment and annotated terms"""
    device: str | None = None
    resume: bool = False
    """Continue the run in `out`, if there is one"""
    allow_inexact: bool = False
    auto: AutoRecipe | None = None
    """Choose the recipe by the training data; `recipe` is then not used, except for its task"""
    mixture: Mixture | None = None
    """Several corpora, instead of `train`"""

    @property
    def files(self) -> TrainingFiles:
        return TrainingFiles(self.recipe, self.train, self.valid, self.languages, self.alignments, self.mixture)

    @property
    def directions(self) -> Directions:
        """The directions of a translator: one, as the user or the files name it, or those of the corpora"""
        if self.mixture is not None and self.mixture.directions:
            return self.mixture.directions
        first = self.mixture.used[0] if self.mixture else None
        languages = self.languages or (first.languages if first else None)
        if languages is None and self.files.prepared:
            languages = prepared_languages(self.files.prepared)
        return Directions.of([languages or find_languages(first.files if first else self.train)])


@dataclass(frozen=True)
class TrainingResult:
    folder: Path
    progress: Progress
    validation: Validation
    """Of the weights that were saved"""
    rank: int = 0
    """The rank of this process, if torchrun has started several"""


def train(run: Run) -> TrainingResult:
    """Train, average checkpoints and save a bundle in `run.out`. Raises Stopped when a signal ends the run early.

    No other process can train in the same folder at the same time.
    """
    task_class = get_task(run.recipe.task)
    task_class.check(run.recipe)
    if run.alignments and (run.recipe.task != "translate" or run.recipe.model.kind == "decoder"):
        raise UserError("--alignments are for translators with an encoder; leave them out")
    if run.recipe.glossary.share and not run.alignments:
        raise UserError("glossary.share needs the word alignments of the training pairs; add --alignments FILE")
    if run.mixture:
        _check_mixture(run, run.mixture)
    if run.files.prepared and (run.recipe.task != "translate" or run.alignments):
        raise UserError(f"{run.files.prepared}: prepared data are for translation without --alignments; name the files")
    if run.files.prepared and run.recipe.train.init_tokenizer == "new":
        raise UserError(f"{run.files.prepared}: its texts are tokenised already; leave --new-tokenizer out")
    _check_order(run)
    run = replace(run, recipe=_with_symbols(run.recipe, run.mixture))
    if run.auto and run.recipe.task != "translate":
        raise UserError(f"the recipe auto is for translation, not for task {run.recipe.task}; see --recipe")
    device = rank_device(device_named(run.device))
    run = replace(run, device=str(device), resume=run.resume or is_restarted(run.out))
    with join_ranks(device) as ranks:
        return _lead(run, ranks) if ranks.is_first else _follow(run, ranks)


def _lead(run: Run, ranks: Ranks) -> TrainingResult:
    """Train as the first rank, or the only one: prepare the data, validate, and write all files."""
    start = time.monotonic()
    with lock_folder(run.out) as lock:
        minutes = run.auto.minutes if run.auto else None
        run = _with_saved_recipe(run)
        prepare_folder(run.out, run.recipe, run.resume)
        with RunLog(run.out, run.recipe.train.tensorboard) as log:
            if minutes is not None and run.auto is None:
                log.info("the run keeps the recipe and the time that it began with; --minutes has no effect")
            try:
                with get_task(run.recipe.task)(run.files) as task:
                    run = _choose_recipe(run, task, log, start, ranks.size)
                    tokenizers, data, words = _load_data(run, task, log)
                ranks.from_first(lambda: None)  # the other ranks can load the data too
                trainer, parent = _make_trainer(run, data, tokenizers, log, ranks, lock)
                ranks.from_first(lambda: None)  # the parent's weights are in the folder of the run
                progress = trainer.train(trainer.restore(run.allow_inexact) if run.resume else trainer.begin())
                validation = _save_model(run, trainer, progress, tokenizers, words, parent, lock)
                ranks.from_first(lambda: {"loss": validation.loss, "rank": validation.rank})
                return TrainingResult(run.out, progress, validation)
            except KeyboardInterrupt:
                newest = next(Checkpoints(run.out / "checkpoints", keep=1).newest(), None)
                where = f"from {newest.path.name}" if newest else "from the beginning"
                log.info(f"interrupted; add --resume to continue {where}")
                raise


def _follow(run: Run, ranks: Ranks) -> TrainingResult:
    """Train as another rank: with the recipe, the tokenizers and the parent that the first one has written."""
    ranks.from_first(lambda: None)
    recipe, tokenizers = saved_recipe(run.out), _read_complete(run.out / "tokenizer")
    if recipe is None or tokenizers is None:
        raise UserError(
            f"rank {ranks.rank}: {run.out} has no run of rank 0; --out must be on a disk that all ranks share"
        )
    run, log = replace(run, recipe=recipe, auto=None), SilentLog(run.out)
    with get_task(recipe.task)(run.files) as task, TemporaryDirectory() as folder:
        data = task.load_data(tokenizers, Path(folder), log)
        ranks.from_first(lambda: None)
        trainer, _ = _make_trainer(run, data, tokenizers, log, ranks)
        progress = trainer.train(trainer.restore(run.allow_inexact) if run.resume else trainer.begin())
    kept = ranks.from_first(lambda: None)
    return TrainingResult(run.out, progress, Validation(kept["loss"], kept["rank"], {}), ranks.rank)


def _check_mixture(run: Run, mixture: Mixture) -> None:
    """Raise a UserError if the run cannot use a mixture."""
    if run.recipe.task != "translate":
        raise UserError(f"--data is for translation, not for task {run.recipe.task}; name the files instead")
    if run.alignments:
        raise UserError("--alignments are for one corpus without --data; leave them out")
    if run.valid and mixture.directions:
        raise UserError("--valid has one language pair, but --data has several; give each corpus 'valid' files there")
    if run.valid and any(corpus.valid for corpus in mixture.used):
        raise UserError("--data has 'valid' files already; leave them or --valid out")
    if run.languages and mixture.directions:
        raise UserError("--languages has one language pair, but --data has several; leave it out")


def _check_order(run: Run) -> None:
    """Refuse two files whose names say that their languages are in the other order."""
    corpora = [(files, run.languages) for files in (run.train, run.valid or ())]
    for corpus in run.mixture.used if run.mixture else ():
        corpora += [(files, corpus.languages or run.languages) for files in (corpus.files, corpus.valid)]
    for files, languages in corpora:
        if len(files) == 2 and languages and find_languages(files) == languages[::-1]:
            named, wanted = ("-".join(pair) for pair in (find_languages(files), languages))
            raise UserError(f"{files[0]}, {files[1]}: {named} files for {wanted}; name them in the other order")


def _with_symbols(recipe: Recipe, mixture: Mixture | None) -> Recipe:
    """Return the recipe with a tokenizer that splits neither the tags of a mixture nor the marks of annotated terms."""
    tags, marks = mixture.tags if mixture else (), SYMBOLS if recipe.glossary.share else ()
    symbols = tuple(dict.fromkeys((*recipe.tokenizer.symbols, *tags, *marks)))
    return recipe.model_copy(update={"tokenizer": recipe.tokenizer.model_copy(update={"symbols": symbols})})


def _with_saved_recipe(run: Run) -> Run:
    """For a resumed run that chose its recipe, return the run with that recipe and what the user has set now.

    A run whose parent is no longer there gets its model options from the saved recipe.
    """
    path, init = run.out / "config.yaml", run.recipe.train.init
    if not run.resume or not path.exists():
        return run
    if run.auto is None:
        if init is None or init.exists():
            return run
        model = Recipe.parse(read_yaml(path), where=str(path)).model
        return replace(run, recipe=run.recipe.model_copy(update={"model": model}))
    tree = merge(read_yaml(path), run.auto.user_options())
    recipe = Recipe.parse(tree, where=str(path))
    return replace(run, recipe=_with_symbols(recipe, run.mixture), auto=None)


def _choose_recipe(run: Run, task: Task, log: RunLog, start: float, ranks: int) -> Run:
    """Choose the recipe of a run with `auto` by its training data; write the recipe of any run to its folder."""
    if run.auto is not None:
        assert isinstance(task, PairTask)
        log.doing("reading the data")
        task.check_size()
        facts = task.measure()
        log.doing("measuring the speed of this machine")
        device = device_named(run.device)
        plan = run.auto.plan(facts, device, time.monotonic() - start, run.directions, ranks)
        for line in describe_plan(plan, device, run.auto.user_options(), run.auto.defaults):
            log.info(line)
        prepared = task.prepared.facts["options"] if task.prepared else {}
        recipe = run.auto.load(merge(plan.options(), prepared))
        run = replace(run, recipe=_with_symbols(recipe, run.mixture))
        task.use(run.recipe)
    save_recipe(run.out, run.recipe)
    return run


def _load_data(run: Run, task: Task, log: RunLog) -> tuple[TokenizerPair, TaskData, SeenWords | None]:
    """Read and tokenise the data, while kernels are compiled."""
    log.doing("reading the data")
    with rehearsal(run.recipe, device_named(run.device)):
        tokenizers = _tokenizers(run, task, log)
        run.directions.check_tags(tokenizers.src)
        log.doing("tokenising the data")
        return tokenizers, task.load_data(tokenizers, run.out, log), task.count_words()


def _save_model(
    run: Run,
    trainer: Trainer,
    progress: Progress,
    tokenizers: TokenizerPair,
    words: SeenWords | None,
    parent: Parent | None,
    lock: FolderLock,
) -> Validation:
    """Save the best weights as a bundle, and return their validation."""
    directions, log = run.directions, trainer.log
    log.doing("averaging and validating the best checkpoints")
    weights, validation = load_best_weights(trainer)
    recipe = run.recipe
    aligner = parent.alignment if parent else Aligner()
    bundle = Bundle(
        trainer.model,
        recipe.model,
        tokenizers,
        directions.first.languages,
        recipe.decode,
        recipe.task,
        recipe.batch.context,
        _guided_aligner(trainer) if run.alignments else aligner,
        _examples(validation, directions) if recipe.task == "translate" else (),
        parent.all_words(words, directions.first.languages) if parent else words,
        directions=directions.several,
        reads_terms=recipe.glossary.share > 0,
    )
    lock.check()
    trained = trained_weights(trainer.model)
    merge_adapters(trainer.model)
    card = model_card(recipe, directions, trainer, progress, validation, weights, parent)
    if parent and recipe.train.lora.rank:
        own = replace(bundle, words=words)
        save_adapter(run.out / ADAPTER, trained, own.small_files(card), AdapterConfig.of(recipe.train, parent))
    bundle.save(run.out, card)
    log.info(f"kept {weights}: validation {validation.describe()}")
    if advice := _advice(run, log):
        log.info(advice)
    return validation


def _examples(validation: Validation, directions: Directions) -> tuple[str, ...]:
    """Return some validation sources without tags, as examples of what the model translates."""
    return tuple(directions.without_tag(source) for source, *_ in validation.samples)


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
    pair, reason = _choose_tokenizers(run, task)
    pair.save(folder)
    write_atomically(folder / _COMPLETE, pair.fingerprint.encode())
    sizes = f"{pair.tgt.size:,}" if pair.joint else f"{pair.src.size:,} and {pair.tgt.size:,}"
    log.info(f"tokenizer: {sizes} pieces{', joint' if pair.joint else ''}{reason and f'; {reason}'}")
    return pair


def _choose_tokenizers(run: Run, task: Task) -> TokenizerChoice:
    if run.files.prepared:
        return TokenizerChoice(task.train_tokenizers(), f"that of {run.files.prepared}")
    if run.tokenizer:
        return TokenizerChoice(TokenizerPair.load(run.tokenizer), "")
    if run.recipe.train.init:
        return choose_tokenizers(run.recipe, task, load_tokenizers(run.recipe.train.init))
    return TokenizerChoice(task.train_tokenizers(), "")


def _read_complete(folder: Path) -> TokenizerPair | None:
    """Return the tokenizers of a run, or None if they are not those that were saved."""
    try:
        pair, fingerprint = TokenizerPair.load(folder), read_regular(folder / _COMPLETE)
    except UserError:
        return None
    return pair if pair.fingerprint.encode() == fingerprint else None


def _make_trainer(
    run: Run, data: TaskData, tokenizers: TokenizerPair, log: RunLog, ranks: Ranks, lock: FolderLock | None = None
) -> tuple[Trainer, Parent | None]:
    """Return the trainer of a run, and the model that it starts from, if any."""
    recipe = run.recipe
    torch.manual_seed(recipe.train.seed)
    src_size = None if tokenizers.joint else tokenizers.src.size
    device = device_named(run.device)
    if recipe.train.deterministic and device.type == "cuda":
        prepare_cublas()
    if device.index is not None:  # cuda:1; plain cuda is the current device
        torch.cuda.set_device(device)  # streams and graphs belong to the current device
    model = models.build(recipe.model, tokenizers.tgt.size, src_size).to(device)
    checkpoints = Checkpoints(run.out / "checkpoints", recipe.train.average_k, lock, identity(recipe))
    parent = None
    if recipe.train.init:
        has_checkpoint = not ranks.is_first or (run.resume and bool(checkpoints.all()))
        parent = prepare_model(model, tokenizers, recipe.train, run.out / PARENT, has_checkpoint, log)
        if not has_checkpoint and (warning := transfer_warning(recipe.train, model.d_model, run.directions)):
            log.info(warning)
    where = device if ranks.size == 1 else f"{ranks.size} ranks of kind {device.type}"
    log.info(f"model: {recipe.model.kind}, {_count_parameters(model)}, on {where}")
    if recipe.train.shard and device.type == "cuda":
        log.info("train.shard: CUDA graphs and fused kernels are off")
    return Trainer(model, data.batches, data.validator, checkpoints, log, recipe.train, ranks), parent


def _count_parameters(model: models.Model) -> str:
    total, trained = (sum(map(Tensor.numel, w.values())) for w in (weights_of(model), trained_weights(model)))
    return f"{total:,} parameters" + (f", of which {trained:,} are trained" if trained < total else "")
