"""Preparing a corpus for training: what `regard data prepare` does, with the options of a recipe."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from regard.bundle import load_tokenizers
from regard.data.parallel_corpus import Corpus, no_usable_pair
from regard.data.prepared.corpus import PreparedCorpus, is_prepared, write_prepared
from regard.data.prepared.job import TOKENIZER, WORK, CleanPairs, PreparationJob, digest
from regard.data.prepared.task_pool import TaskPool
from regard.data.reading_progress import ReadingProgress
from regard.data.row_sample import sample_rows, shuffled_rows
from regard.errors import UserError
from regard.files import delete_folder, remove_leftovers, write_atomically
from regard.lock import lock_folder
from regard.manifest import MANIFEST, Manifest, read_regular
from regard.paths import remote_url
from regard.text.tokenizer import TokenizerPair, train_tokenizers
from regard.train.auto import row_for
from regard.train.auto_recipe import AutoRecipe
from regard.train.corpus_facts import CorpusFacts, facts_of, measured_rows
from regard.train.prepared_options import prepared_options
from regard.train.recipe import Recipe
from regard.train.tasks.base import TOKENIZER_TEXTS
from regard.train.tasks.pairs import MAX_HELD_OUT, PAIRS_PER_HELD_OUT

_KEY = "complete"


@dataclass(frozen=True)
class PreparationOptions:
    """What is prepared, and how."""

    recipe: Recipe
    languages: tuple[str, str]
    auto: AutoRecipe | None = None
    """Choose the vocabulary by the corpus; `recipe` is then not used for the tokenizer"""
    tokenizer: Path | None = None
    """Use the tokenizer of this model directory"""

    @property
    def identity(self) -> tuple[Any, ...]:
        """What the result depends on"""
        recipe = self.recipe
        return prepared_options(recipe), recipe.train.seed, self.languages, self.auto is not None, str(self.tokenizer)

    def recipe_for(self, facts: CorpusFacts) -> Recipe:
        """Return the recipe for a corpus."""
        if self.auto is None:
            return self.recipe
        return self.auto.load({"tokenizer": {"vocab_size": row_for(facts).vocab}})


def prepare_data(
    corpora: Sequence[Corpus], folder: Path, options: PreparationOptions, pool: TaskPool, progress: ReadingProgress
) -> PreparedCorpus:
    """Prepare a corpus in a folder, or go on with a preparation that was interrupted. Returns the prepared corpus."""
    if options.recipe.task != "translate":
        raise UserError(f"data prepare is for translation, not for task {options.recipe.task}")
    with lock_folder(folder):
        _check_folder(folder)
        files = chain.from_iterable(corpus.data_paths for corpus in corpora)
        inputs = digest(*map(_identity, files), options.identity)
        if not _is_complete(folder, inputs):
            remove_leftovers(folder / WORK)
            _prepare(corpora, folder, options, PreparationJob(folder, pool, progress), inputs)
        delete_folder(folder / WORK)
    return PreparedCorpus.open(folder)


def _prepare(
    corpora: Sequence[Corpus], folder: Path, options: PreparationOptions, job: PreparationJob, inputs: str
) -> None:
    name = " + ".join(dict.fromkeys(path.name for corpus in corpora for path in corpus.paths))
    clean = job.read(corpora, options.recipe.data)
    if not len(clean):
        raise no_usable_pair(name, clean.report())
    facts = facts_of(len(clean), job.sample(clean, np.concatenate(list(map(np.asarray, measured_rows(len(clean)))))))
    recipe = options.recipe_for(facts)
    tokenizers = _tokenizers(job, clean, recipe, options.tokenizer)
    shards = job.encode(clean, tokenizers, recipe.batch.max_tokens)
    n = sum(int(shard.facts["pairs"]) for shard in shards)
    held_out = shuffled_rows(n, min(MAX_HELD_OUT, n // PAIRS_PER_HELD_OUT), recipe.train.seed)
    write_prepared(
        folder,
        clean,
        shards,
        tokenizers,
        held_out,
        name=name,
        inputs=inputs,
        languages=options.languages,
        options=prepared_options(recipe),
        facts=[facts.pairs, facts.source_words, facts.target_words, facts.target_unit],
    )


def _tokenizers(job: PreparationJob, clean: CleanPairs, recipe: Recipe, given: Path | None) -> TokenizerPair:
    """Return the tokenizers of the folder; make them if they are not there."""
    folder = job.folder / TOKENIZER
    if given:
        pair = load_tokenizers(given)
        pair.save(folder)
        return pair
    key = digest(clean.reasons.name, recipe.tokenizer.model_dump_json(), recipe.train.seed).encode()
    if (folder / _KEY).is_file() and read_regular(folder / _KEY) == key:
        return TokenizerPair.load(folder)
    (folder / _KEY).unlink(missing_ok=True)
    job.progress("training the tokenizer", 0)
    texts = job.sample(clean, sample_rows(len(clean), TOKENIZER_TEXTS, recipe.train.seed))
    pair = train_tokenizers(texts[::2], texts[1::2], recipe.tokenizer)
    pair.save(folder)
    write_atomically(folder / _KEY, key)
    return pair


def _check_folder(folder: Path) -> None:
    """Refuse a folder with other files."""
    others = [path.name for path in folder.iterdir() if not path.name.startswith(".")]
    if others and not is_prepared(folder):
        raise UserError(f"--out {folder}: holds other files, such as {min(others)}; choose a new or empty folder")


def _is_complete(folder: Path, inputs: str) -> bool:
    if not (folder / MANIFEST).is_file():
        return False
    if Manifest.read(folder).facts.get("inputs") != inputs:
        raise UserError(f"--out {folder}: was prepared from other files or with other options; choose another folder")
    return True


def _identity(path: Path) -> tuple[str, int, int]:
    """Return what tells whether a file is the same as before."""
    if remote_url(path):
        return remote_url(path), 0, 0
    status = path.stat()
    return str(path.absolute()), status.st_size, status.st_mtime_ns
