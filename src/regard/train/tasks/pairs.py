"""What the tasks on pairs of texts share: reading a parallel corpus and splitting it."""

from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.data.corpus_report import CorpusReport
from regard.data.leakage import Leakage, find_leakage, find_leakage_within
from regard.data.pair_rules import FilterConfig
from regard.data.pair_store import PairStore, open_store
from regard.data.parallel_corpus import Corpus, ParsedCorpus, SentencePair, no_usable_pair
from regard.errors import UserError
from regard.text.tokenizer import TokenizerPair
from regard.train.log import RunLog
from regard.train.tasks.base import Task, sample_texts

_MAX_HELD_OUT = 1_000


@dataclass(frozen=True)
class PairSplit:
    """Training and validation pairs, from separate files or from one corpus."""

    train: PairStore
    train_rows: NDArray[np.int64]
    valid: PairStore
    valid_rows: NDArray[np.int64]


class PairTask(Task):
    """A task on pairs of texts."""

    @cached_property
    def train_corpus(self) -> ParsedCorpus:
        return self._read(self.files.train, self.recipe.data if self.recipe.task == "translate" else None)

    @cached_property
    def valid_corpus(self) -> ParsedCorpus:
        return self.train_corpus if self.files.valid is None else self._read(self.files.valid)

    def _read(self, paths: tuple[Path, ...], filter_: FilterConfig | None = None) -> ParsedCorpus:
        corpus = Corpus(paths, self.files.languages, filter=filter_)
        return self.resources.enter_context(closing(corpus.read()))

    def check_size(self) -> None:
        """Raise a UserError if there are no pairs, or too few to hold some out for validation."""
        self.train_corpus.check_not_empty()
        self.valid_corpus.check_not_empty()
        if self.files.valid is None:
            _held_out(len(self.train_corpus), self.train_corpus.report)

    def sample_pairs(self) -> tuple[list[str], list[str]]:
        """Return the sources and the targets of a sample of the training pairs, to train tokenizers on."""
        self.train_corpus.check_not_empty()
        pairs = sample_texts(self.train_corpus, self.recipe.train.seed)
        return [source for source, _ in pairs], [target for _, target in pairs]

    def split(self, tokenizers: TokenizerPair, log: RunLog) -> PairSplit:
        """Tokenise the corpora; without validation files hold out 5 % of the training pairs, at most 1,000."""
        store = self._tokenise(self.train_corpus, tokenizers, "training data", log)
        if self.files.valid is not None:
            valid = self._tokenise(self.valid_corpus, tokenizers, "validation data", log)
            _warn(find_leakage(self.valid_corpus, self.train_corpus), log)
            return PairSplit(store, np.arange(len(store)), valid, np.arange(len(valid)))
        shuffled = np.random.Generator(np.random.Philox(key=self.recipe.train.seed)).permutation(len(store))
        n_valid = _held_out(len(store), store.report)
        log.info(f"validation data: {n_valid:,} pairs held out of the training data")
        train_rows, valid_rows = np.sort(shuffled[n_valid:]), np.sort(shuffled[:n_valid])
        _warn(find_leakage_within(self.train_corpus, store.numbers[valid_rows], store.numbers[train_rows]), log)
        return PairSplit(store, train_rows, store, valid_rows)

    def valid_texts(self, split: PairSplit, n: int | None = None) -> list[SentencePair]:
        """Return the texts of the first n validation rows; decoded ids need not be equal to them."""
        return [self.valid_corpus[i] for i in split.valid.numbers[split.valid_rows[:n]].tolist()]

    def _tokenise(self, corpus: ParsedCorpus, tokenizers: TokenizerPair, name: str, log: RunLog) -> PairStore:
        store = open_store(corpus, tokenizers, self.recipe.batch.max_tokens, warn=log.info)
        for line in store.report.describe(name):
            log.info(line)
        if not len(store):
            raise no_usable_pair(corpus.name, store.report)
        return store


def _held_out(pairs: int, report: CorpusReport) -> int:
    """Return how many pairs of the training data are held out for validation."""
    if held_out := min(_MAX_HELD_OUT, pairs // 20):
        return held_out
    why = "; ".join(report.describe("training data"))
    raise UserError(f"{pairs} pairs are too few to hold some out for validation; give --valid files ({why})")


def _warn(leakage: Leakage, log: RunLog) -> None:
    if line := leakage.describe("validation data"):
        log.info(f"warning: {line}")
