"""A whole run: data files and a recipe in, a model directory out."""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard import models
from regard.bundle import Bundle
from regard.config import read_yaml
from regard.data.batching import Batches
from regard.data.corpus import Corpus, Pair, Report
from regard.data.store import PairStore, open_store
from regard.errors import UserError
from regard.files import write_atomically
from regard.models.weights import load_weights
from regard.text.dropout import BpeDropout
from regard.text.tokenizer import SentencePieceTokenizer, TokenizerPair, train_tokenizer
from regard.train.average import average
from regard.train.card import model_card
from regard.train.checkpoint import Checkpoints
from regard.train.log import RunLog
from regard.train.recipe import Recipe
from regard.train.trainer import Progress, Trainer
from regard.train.validate import Validation, Validator
from regard.translator import device_named

_TOKENIZER_PAIRS = 1_000_000  # what the tokenizer learns from; more change nothing but the time
_HOLD_OUT = 1_000
_MARK = "# The resolved recipe of this run of regard."

# A resumed run may differ in these and still be the same run.
_MAY_DIFFER = {"train.steps", "train.patience", "train.log_every", "train.tensorboard", "batch.workers"}


@dataclass(frozen=True)
class Run:
    """What to train on, where, and whether to go on with what is there."""

    recipe: Recipe
    train: Corpus
    valid: Corpus | None
    out: Path
    languages: tuple[str, str] = ("src", "tgt")
    device: str | None = None
    resume: bool = False
    allow_inexact: bool = False


@dataclass(frozen=True)
class Result:
    folder: Path
    progress: Progress
    validation: Validation
    """Of the weights that were kept"""


def train(run: Run) -> Result:
    """Train, average and save; the folder is then a bundle. Raises Stopped when a signal ends it early."""
    _claim(run)
    log = RunLog(run.out, run.recipe.train.tensorboard)
    tokenizers = _tokenizers(run, log)
    trainer = _trainer(run, tokenizers, log)
    progress = trainer.restore(run.allow_inexact) if run.resume else trainer.begin()
    progress = trainer.train(progress)
    kept, validation = _keep_best(run, trainer)
    bundle = Bundle(trainer.model, run.recipe.model, tokenizers, run.languages, run.recipe.decode)
    bundle.save(run.out, model_card(run.recipe, run.languages, trainer, progress, validation, kept))
    log.say(f"kept {kept}: validation BLEU {validation.bleu:.2f}, chrF {validation.chrf:.2f}")
    log.close()
    return Result(run.out, progress, validation)


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
    """Those of the run if it has begun before, else learnt from the training text."""
    folder = run.out / "tokenizer"
    if run.resume and (folder / "complete").is_file():
        return TokenizerPair.load(folder)
    config = run.recipe.tokenizer
    if config.dropout and (config.kind != "bpe" or not config.byte_fallback):
        raise UserError("tokenizer.dropout needs tokenizer.kind: bpe and tokenizer.byte_fallback: true")
    sample = _sample(run.train.pairs(Report()), run.recipe.train.seed)
    if not sample:
        raise UserError(_no_pairs(run.train))
    src, tgt = zip(*sample, strict=True)
    if config.joint:
        joint = train_tokenizer([*src, *tgt], config)
        pair = TokenizerPair(joint, joint)
    else:
        pair = TokenizerPair(train_tokenizer(src, config), train_tokenizer(tgt, config))
    pair.save(folder)
    write_atomically(folder / "complete", b"")
    sizes = f"{pair.tgt.size:,}" if pair.joint else f"{pair.src.size:,} and {pair.tgt.size:,}"
    log.say(f"tokenizer: {config.kind}, {sizes} pieces{', joint' if pair.joint else ''}")
    return pair


def _trainer(run: Run, tokenizers: TokenizerPair, log: RunLog) -> Trainer:
    recipe = run.recipe
    store, train_rows, valid_store, valid_rows = _data(run, tokenizers, log)
    shown = valid_store.numbers[valid_rows[: recipe.valid.sentences]]
    texts = _pairs_numbered(run.valid or run.train, shown)
    torch.manual_seed(recipe.train.seed)
    src_size = None if tokenizers.joint else tokenizers.src.size
    device = device_named(run.device)
    model = models.build(recipe.model, tokenizers.tgt.size, src_size).to(device)
    log.say(f"model: {recipe.model.kind}, {sum(p.numel() for p in model.parameters()):,} parameters, on {device}")
    resample = _resamplers(tokenizers, recipe.tokenizer.dropout)
    batches = Batches(store, train_rows, recipe.batch, recipe.train.seed, resample)
    validator = Validator(valid_store, valid_rows, texts, tokenizers, recipe.valid, recipe.decode, recipe.batch.tokens)
    checkpoints = Checkpoints(run.out / "checkpoints", keep=recipe.train.average_k)
    return Trainer(model, batches, validator, checkpoints, log, recipe.train)


def _resamplers(tokenizers: TokenizerPair, dropout: float) -> tuple[BpeDropout, BpeDropout] | None:
    src, tgt = tokenizers.src, tokenizers.tgt
    if not dropout or not isinstance(src, SentencePieceTokenizer) or not isinstance(tgt, SentencePieceTokenizer):
        return None
    first = BpeDropout(src, dropout)
    return first, first if tokenizers.joint else BpeDropout(tgt, dropout)


def _data(
    run: Run, tokenizers: TokenizerPair, log: RunLog
) -> tuple[PairStore, NDArray[np.int64], PairStore, NDArray[np.int64]]:
    """Training store and rows, validation store and rows. Without validation files some pairs are held out."""
    limit = run.recipe.batch.max_tokens
    store = open_store(run.train, tokenizers, limit)
    for line in store.report.describe("training data"):
        log.say(line)
    if not len(store):
        raise UserError(_no_pairs(run.train))
    if run.valid is not None:
        valid = open_store(run.valid, tokenizers, limit)
        for line in valid.report.describe("validation data"):
            log.say(line)
        if not len(valid):
            raise UserError(_no_pairs(run.valid))
        return store, np.arange(len(store)), valid, np.arange(len(valid))
    shuffled = np.random.Generator(np.random.Philox(key=run.recipe.train.seed)).permutation(len(store))
    n_valid = min(_HOLD_OUT, len(store) // 20)
    if n_valid == 0:
        raise UserError(f"{len(store)} pairs are too few to hold some out; give --valid files")
    log.say(f"validation data: {n_valid:,} pairs held out of the training data")
    return store, np.sort(shuffled[n_valid:]), store, np.sort(shuffled[:n_valid])


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
    validation, name, weights = max(found, key=lambda row: (row[0].bleu, -row[0].loss))
    load_weights(trainer.model, weights, name)
    return name, validation


def _pairs_numbered(corpus: Corpus, numbers: NDArray[np.int64]) -> list[Pair]:
    """Those of the corpus's clean pairs, as they were written."""
    wanted = set(numbers.tolist())
    found = {i: pair for i, pair in enumerate(corpus.pairs(Report())) if i in wanted}
    return [found[i] for i in numbers.tolist()]


def _sample(pairs: Iterable[Pair], seed: int) -> list[Pair]:
    """A uniform sample of the pairs (reservoir sampling), all of them where they are few."""
    generator = random.Random(seed)
    kept: list[Pair] = []
    for i, pair in enumerate(pairs):
        if len(kept) < _TOKENIZER_PAIRS:
            kept.append(pair)
        elif (place := generator.randrange(i + 1)) < _TOKENIZER_PAIRS:
            kept[place] = pair
    return kept


def _leaves(tree: dict[str, Any], path: str = "") -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for key, value in tree.items():
        leaves |= _leaves(value, f"{path}{key}.") if isinstance(value, dict) else {f"{path}{key}": value}
    return leaves


def _no_pairs(corpus: Corpus) -> str:
    report = Report()
    for _ in corpus.pairs(report):
        pass
    return f"no usable pair of sentences: {'; '.join(report.describe(' + '.join(p.name for p in corpus.paths)))}"
