"""A whole run: data files and a recipe in, a model directory out."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regard import models
from regard.alignment.aligner import Aligner
from regard.bundle import Bundle
from regard.config import read_yaml
from regard.errors import UserError
from regard.evaluate.validation import Validation
from regard.files import write_atomically
from regard.models.weights import load_matching, load_weights
from regard.pipelines.base import device_named
from regard.text.tokenizer import TokenizerPair
from regard.train.average import average
from regard.train.checkpoint import Checkpoints
from regard.train.log import RunLog
from regard.train.model_card import model_card
from regard.train.recipe import Recipe
from regard.train.tasks import task_named
from regard.train.tasks.base import Files
from regard.train.trainer import Progress, Trainer

_MARK = "# The resolved recipe of this run of regard."

_SHARE = 0.25  # of a target word's attention, from which on a guided head's link counts

# A resumed run may differ in these and still be the same run.
_MAY_DIFFER = {
    *("train.steps", "train.seconds", "train.patience", "train.log_every", "train.tensorboard"),
    "batch.workers",
}


@dataclass(frozen=True)
class Run:
    """What to train on, where, and whether to go on with what is there."""

    recipe: Recipe
    train: tuple[Path, ...]
    valid: tuple[Path, ...] | None
    out: Path
    languages: tuple[str, str] | None = None
    """Of the two sides; by default as the files' names have it"""
    tokenizer: Path | None = None
    """A folder of tokenizers to use instead of learning some"""
    alignments: Path | None = None
    """Word alignments of the training pairs, which teach one head where to look"""
    device: str | None = None
    resume: bool = False
    allow_inexact: bool = False

    @property
    def files(self) -> Files:
        return Files(self.recipe, self.train, self.valid, self.languages, self.alignments)


@dataclass(frozen=True)
class Result:
    folder: Path
    progress: Progress
    validation: Validation
    """Of the weights that were kept"""


def train(run: Run) -> Result:
    """Train, average and save; the folder is then a bundle. Raises Stopped when a signal ends it early."""
    task_named(run.recipe.task).check(run.recipe)
    if run.alignments and (run.recipe.task != "translate" or run.recipe.model.kind == "decoder"):
        raise UserError("--alignments teach a translator with an encoder; leave them out")
    _claim(run)
    log = RunLog(run.out, run.recipe.train.tensorboard)
    tokenizers = _tokenizers(run, log)
    trainer = _trainer(run, tokenizers, log)
    progress = trainer.restore(run.allow_inexact) if run.resume else trainer.begin()
    progress = trainer.train(progress)
    kept, validation = _keep_best(run, trainer)
    recipe, languages = run.recipe, run.languages or languages_from_names(run.train)
    bundle = Bundle(
        trainer.model,
        recipe.model,
        tokenizers,
        languages,
        recipe.decode,
        recipe.task,
        recipe.batch.context,
        _guided(trainer) if run.alignments else Aligner(),
        tuple(source for source, *_ in validation.samples) if recipe.task == "translate" else (),
    )
    bundle.save(run.out, model_card(recipe, languages, trainer, progress, validation, kept))
    log.say(f"kept {kept}: validation {validation.describe()}")
    log.close()
    return Result(run.out, progress, validation)


def _guided(trainer: Trainer) -> Aligner:
    """The head that was taught is the one to ask; of several links each has a share."""
    guide = trainer.config.guide
    n_layers = len(trainer.model.attention_modules("cross"))
    return Aligner(layer=guide.place(n_layers), head=guide.head, threshold=_SHARE)


def languages_from_names(files: Sequence[Path]) -> tuple[str, str]:
    """From names such as train.en and train.fr.gz"""
    suffixes = [Path(path.name.removesuffix(".gz")).suffix.removeprefix(".") for path in files]
    if len(suffixes) == 2 and all(2 <= len(s) <= 3 and s.isalpha() for s in suffixes) and len(set(suffixes)) == 2:
        return suffixes[0], suffixes[1]
    return "src", "tgt"


def _claim(run: Run) -> None:
    """Write the resolved recipe into the folder, or check that it is the one a resumed run began with."""
    path = run.out / "config.yaml"
    if not _is_ours(run.out):
        raise UserError(f"{run.out}: holds files that are not of a run; choose a new or empty folder as --out")
    begun = any((run.out / "checkpoints").glob("step-*")) or (run.out / "model.safetensors").is_file()
    if begun and not run.resume:
        raise UserError(f"{run.out}: holds a run already; add --resume to go on with it, or choose another --out")
    if run.resume and path.is_file():
        before, now = _leaves(read_yaml(path)), _leaves(run.recipe.model_dump(mode="json"))
        for name in sorted(before.keys() | now.keys()):
            if before.get(name) != now.get(name) and name not in _MAY_DIFFER:
                raise UserError(
                    f"--resume: {name} was {before.get(name)} when the run began and is {now.get(name)} now; "
                    "give the same options, or choose another --out"
                )
    try:
        run.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{run.out}: cannot be made a folder ({error.strerror})") from None
    write_atomically(path, f"{_MARK}\n{run.recipe.to_yaml()}".encode())


def _is_ours(folder: Path) -> bool:
    """Whether nothing would be overwritten that somebody else wrote."""
    config = folder / "config.yaml"
    if config.is_file():
        return config.read_text(encoding="utf-8", errors="replace").startswith(_MARK)
    return not any((folder / name).exists() for name in ("README.md", "config.json", "model.safetensors"))


def _tokenizers(run: Run, log: RunLog) -> TokenizerPair:
    """Those of the run if it has begun before, else those it is given or the model's it starts from, else learnt."""
    folder = run.out / "tokenizer"
    if run.resume and (folder / "complete").is_file():
        return TokenizerPair.load(folder)
    pair = TokenizerPair.load(run.tokenizer) if run.tokenizer else task_named(run.recipe.task).tokenizers(run.files)
    if run.recipe.train.init:
        pair = _as_started(pair, run.recipe)
    pair.save(folder)
    write_atomically(folder / "complete", b"")
    sizes = f"{pair.tgt.size:,}" if pair.joint else f"{pair.src.size:,} and {pair.tgt.size:,}"
    log.say(f"tokenizer: {sizes} pieces{', joint' if pair.joint else ''}")
    return pair


def _as_started(learnt: TokenizerPair, recipe: Recipe) -> TokenizerPair:
    """Those of the model that the run starts from, save labels, which are those of the data."""
    assert recipe.train.init is not None
    start = TokenizerPair.load(recipe.train.init / "tokenizer")
    if recipe.task == "classify":
        return TokenizerPair(start.src, learnt.tgt)
    return start


def _start_from(init: Path, model: models.Model, tokenizers: TokenizerPair, log: RunLog) -> None:
    bundle = Bundle.load(init)
    # What belongs to target tokens is of no use to others.
    other = bundle.tokenizers.tgt.to_bytes() != tokenizers.tgt.to_bytes()
    n = load_matching(model, bundle.model, leave_out=("output.",) if other else ())
    log.say(f"starts from {init}: {n:,} weights")


def _trainer(run: Run, tokenizers: TokenizerPair, log: RunLog) -> Trainer:
    recipe = run.recipe
    data = task_named(recipe.task).data(run.files, tokenizers, run.out, log)
    torch.manual_seed(recipe.train.seed)
    src_size = None if tokenizers.joint else tokenizers.src.size
    device = device_named(run.device)
    if device.index is not None:  # cuda:1; plain cuda is the current one
        torch.cuda.set_device(device)  # streams and graphs belong to the current one
    model = models.build(recipe.model, tokenizers.tgt.size, src_size).to(device)
    if recipe.train.init:
        _start_from(recipe.train.init, model, tokenizers, log)
    log.say(f"model: {recipe.model.kind}, {sum(p.numel() for p in model.parameters()):,} parameters, on {device}")
    checkpoints = Checkpoints(run.out / "checkpoints", keep=recipe.train.average_k)
    return Trainer(model, data.batches, data.validator, checkpoints, log, recipe.train)


def _keep_best(run: Run, trainer: Trainer) -> tuple[str, Validation]:
    """Load into the model what validates best: the best checkpoint, or the average that the recipe asks for."""
    config, checkpoints = run.recipe.train, trainer.checkpoints
    trainer.ema = None  # what is loaded from here on is not to be averaged again
    best = checkpoints.best(1)
    choices = {f"the checkpoint of step {best[0].step}": best}
    if config.average != "none":
        chosen = checkpoints.last(config.average_k) if config.average == "last" else checkpoints.best(config.average_k)
        choices[f"the mean of the {len(chosen)} {config.average} checkpoints"] = chosen
    found = []
    for name, group in choices.items():
        weights = average(group)
        load_weights(trainer.model, weights, name)
        found.append((trainer.validate(), name, weights))
    validation, name, weights = max(found, key=lambda row: (row[0].rank, -row[0].loss))
    load_weights(trainer.model, weights, name)
    return name, validation


def _leaves(tree: dict[str, Any], path: str = "") -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for key, value in tree.items():
        leaves |= _leaves(value, f"{path}{key}.") if isinstance(value, dict) else {f"{path}{key}": value}
    return leaves
