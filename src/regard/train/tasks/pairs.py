"""What the tasks on pairs of texts share: reading a parallel corpus and splitting it."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise
from math import floor

import numpy as np
from numpy.typing import NDArray

from regard.data.corpus_report import CorpusReport
from regard.data.joined_corpus import join_corpora
from regard.data.leakage import Leakage, find_leakage, find_leakage_within
from regard.data.mixture import Mixture
from regard.data.mixture_order import MixtureOrder
from regard.data.pair_store import PairStore, open_store
from regard.data.parallel_corpus import Corpus, CorpusPart, ParsedCorpus, SentencePair, no_usable_pair
from regard.data.prepared.corpus import PreparedCorpus
from regard.data.prepared.sharded_pairs import ShardedPairs
from regard.data.row_sample import sample_rows, shuffled_rows
from regard.data.row_windows import Rows, RowsExcept
from regard.errors import UserError
from regard.text.tokenizer import TokenizerPair
from regard.train.corpus_facts import CorpusFacts, measure_corpus
from regard.train.log import RunLog
from regard.train.prepared_options import check_options
from regard.train.tasks.base import TOKENIZER_TEXTS, Task

MAX_HELD_OUT = 1_000
PAIRS_PER_HELD_OUT = 20
_MEASURED_PAIRS = 100_000


@dataclass(frozen=True)
class PairSplit:
    """Training and validation pairs, from separate files or from one corpus."""

    train: PairStore | ShardedPairs
    train_rows: RowsExcept
    valid: PairStore | ShardedPairs
    valid_rows: NDArray[np.int64]

    def train_rows_of(self, part: CorpusPart) -> RowsExcept:
        """Return the training rows of a part of the corpus."""
        of_part = self.train.part_rows(part)
        return self.train_rows.between(of_part.start, of_part.stop)


class PairTask(Task):
    """A task on pairs of texts."""

    @property
    def mixture(self) -> Mixture:
        return self.files.mixture or Mixture.of_files(self.files.train)

    @cached_property
    def train_corpus(self) -> ParsedCorpus:
        filter_ = self.recipe.data if self.recipe.task == "translate" else None
        return join_corpora(
            [
                (config.name, self._read(config.corpus(filter_, self.files.languages)), self.mixture.prefix(config))
                for config in self.mixture.used
            ]
        )

    @cached_property
    def prepared(self) -> PreparedCorpus | None:
        """The corpus that was prepared before, if training is on one"""
        return PreparedCorpus.open(self.files.prepared) if self.files.prepared else None

    @property
    def train_parts(self) -> tuple[CorpusPart, ...]:
        return self.prepared.parts if self.prepared else self.train_corpus.parts

    def measure(self) -> CorpusFacts:
        """Count the pairs and words of the training data."""
        return CorpusFacts(*self.prepared.facts["facts"]) if self.prepared else measure_corpus(self.train_corpus)

    @cached_property
    def valid_corpus(self) -> ParsedCorpus:
        if self.files.valid is not None:
            return self._read(Corpus(self.files.valid, self.files.languages))
        having = [config for config in self.mixture.used if config.valid]
        if not having:
            return self.train_corpus
        return join_corpora(
            [
                (
                    config.name,
                    self._read(Corpus(config.valid, config.languages or self.files.languages)),
                    self.mixture.prefix(config, tagged=False),
                )
                for config in having
            ]
        )

    @property
    def _holds_out(self) -> bool:
        """Whether the validation pairs are some of the training pairs"""
        return self.files.valid is None and not any(config.valid for config in self.mixture.used)

    def _read(self, corpus: Corpus) -> ParsedCorpus:
        return self.resources.enter_context(closing(corpus.read()))

    def check_size(self) -> None:
        """Raise a UserError if there are no pairs, or too few to hold some out for validation."""
        if self.prepared:
            return
        self.train_corpus.check_not_empty()
        self.valid_corpus.check_not_empty()
        if self._holds_out:
            held_out_count(len(self.train_corpus), self.train_corpus.report)

    def sample_pairs(self) -> tuple[list[str], list[str]]:
        """Return the sources and the targets of a sample of the training pairs, to train tokenizers on.

        Each corpus has its share of the sample.
        """
        corpus, seed = self.train_corpus, self.recipe.train.seed
        corpus.check_not_empty()
        if self.mixture.follows_sizes:
            sample = sample_rows(len(corpus), TOKENIZER_TEXTS, seed)
        else:
            rows = {part.name: np.arange(part.start, part.stop) for part in corpus.parts}
            sample = MixtureOrder.plan(self.mixture, rows, seed).sample(min(TOKENIZER_TEXTS, len(corpus)))
        copies = np.bincount(sample, minlength=len(corpus)).tolist()
        pairs = [pair for pair, n in zip(corpus, copies, strict=True) for _ in range(n)]
        return [source for source, _ in pairs], [target for _, target in pairs]

    def split(self, tokenizers: TokenizerPair, log: RunLog) -> PairSplit:
        """Tokenise the corpora; without validation files hold out 5 % of the training pairs, at most 1,000.

        Of several directions, each has its part of the validation pairs.
        """
        if self.prepared:
            return self._split_prepared(self.prepared, tokenizers, log)
        store = self._tokenise(self.train_corpus, tokenizers, "training data", log)
        if not self._holds_out:
            valid = self._tokenise(self.valid_corpus, tokenizers, "validation data", log)
            _warn(find_leakage(self.valid_corpus, self.train_corpus), log)
            return PairSplit(store, RowsExcept.nothing(len(store)), valid, np.arange(len(valid)))
        directions = self._parts_by_direction(self.train_corpus)
        held_out = [self._hold_out(store, name, parts, len(directions)) for name, parts in directions.items()]
        valid_rows = np.sort(np.concatenate(held_out))
        log.info(f"validation data: {len(valid_rows):,} pairs held out of the training data")
        train_rows = RowsExcept(0, len(store), valid_rows)
        _warn(find_leakage_within(self.train_corpus, store.numbers[valid_rows], store.numbers[train_rows.all()]), log)
        return PairSplit(store, train_rows, store, valid_rows)

    def _split_prepared(self, prepared: PreparedCorpus, tokenizers: TokenizerPair, log: RunLog) -> PairSplit:
        """Return a prepared corpus, and the validation files or the pairs that were held out of it."""
        check_options(prepared, self.recipe)
        if tokenizers.fingerprint != prepared.tokenizers.fingerprint:
            raise UserError(
                f"{prepared.folder}: was prepared with another tokenizer; prepare it again with --tokenizer"
            )
        for line in prepared.report.describe("training data"):
            log.info(line)
        pairs, held_out = prepared.pairs, prepared.held_out
        if not self._holds_out:
            valid = self._tokenise(self.valid_corpus, tokenizers, "validation data", log)
            _warn(prepared.find_leakage(list(self.valid_corpus.texts), self.valid_corpus.lines), log)
            return PairSplit(pairs, RowsExcept.nothing(len(pairs)), valid, np.arange(len(valid)))
        if held_out is None:
            raise _too_few(len(pairs), prepared.report)
        log.info(f"validation data: {len(held_out.rows):,} pairs held out of the training data")
        _warn(held_out.leakage, log)
        return PairSplit(pairs, RowsExcept(0, len(pairs), held_out.rows), pairs, held_out.rows)

    def _parts_by_direction(self, corpus: ParsedCorpus) -> dict[str, list[CorpusPart]]:
        """Return the parts of a corpus by the name of their direction; "" if there is only one."""
        directions = {config.name: self.mixture.direction(config) for config in self.mixture.used}
        groups: dict[str, list[CorpusPart]] = {}
        for part in corpus.parts:
            direction = directions.get(part.name)
            groups.setdefault(direction.name if direction else "", []).append(part)
        return groups

    def _hold_out(
        self, store: PairStore, direction: str, parts: list[CorpusPart], n_directions: int
    ) -> NDArray[np.int64]:
        """Return the validation rows of a direction: of parts without tags of their own, if these are large enough."""
        all_rows = np.arange(len(store))
        tagged = {config.name for config in self.mixture.used if config.tag}
        untagged = [part for part in parts if part.name not in tagged]
        if sum(len(all_rows[store.part_rows(part)]) for part in untagged) >= PAIRS_PER_HELD_OUT:
            parts = untagged
        rows = np.concatenate([all_rows[store.part_rows(part)] for part in parts])
        count = held_out_count(len(rows), store.report, MAX_HELD_OUT // n_directions, direction)
        return rows[shuffled_rows(len(rows), count, self.recipe.train.seed)]

    def mixture_order(self, split: PairSplit, log: RunLog) -> MixtureOrder | None:
        """Return which training rows each epoch has; None: all of them, as they are."""
        for line in self.mixture.notes:
            log.info(line)
        for config in self.mixture.corpora:
            if config not in self.mixture.used:
                log.info(f"{config.name}: not used, as it has no share")
        if not self.mixture.fingerprint:
            return None
        rows = {part.name: split.train_rows_of(part) for part in self.train_parts}
        order = MixtureOrder.plan(self.mixture, rows, self.recipe.train.seed)
        for line in (*order.describe(), *self._unreached(order, split.train)) if len(rows) > 1 else ():
            log.info(line)
        return order

    def _unreached(self, order: MixtureOrder, store: PairStore | ShardedPairs) -> Iterator[str]:
        """Yield a warning if training ends before the last stage, as far as the lengths of the pairs tell."""
        recipe = self.recipe
        tokens = [_mean_length(store, rows) for rows in order.rows]
        updates = 0.0
        for stage, following in pairwise(order.stages):
            of_epoch = sum(float(n) * mean for n, mean in zip(stage.amounts, tokens, strict=True))
            updates += (stage.epochs or 0) * of_epoch / (recipe.batch.tokens * recipe.train.accumulate)
            if updates > recipe.train.steps:
                yield (
                    f"warning: {following.name} would begin after more than {floor(updates):,} updates, but training "
                    f"ends after {recipe.train.steps:,}; raise train.steps"
                )
                return

    def valid_texts(self, split: PairSplit, n: int | None = None) -> dict[str, list[SentencePair]]:
        """Return the texts of the first validation rows of each direction, n in all, with their tags.

        Decoded ids need not be equal to them.
        """
        if self.prepared and self._holds_out:
            return {"": self.prepared.held_out.texts[:n] if self.prepared.held_out else []}
        groups = self._parts_by_direction(self.valid_corpus)
        most = None if n is None else max(1, n // len(groups))
        return {name: list(islice(self._texts(split, parts), most)) for name, parts in groups.items()}

    def _texts(self, split: PairSplit, parts: list[CorpusPart]) -> Iterator[SentencePair]:
        """Yield the validation texts of some parts of the corpus."""
        for part in parts:
            assert isinstance(split.valid, PairStore)
            rows = np.intersect1d(np.arange(len(split.valid))[split.valid.part_rows(part)], split.valid_rows)
            for number in split.valid.numbers[rows].tolist():
                source, target = self.valid_corpus[number]
                yield part.prefix + source, target

    def _tokenise(self, corpus: ParsedCorpus, tokenizers: TokenizerPair, name: str, log: RunLog) -> PairStore:
        store = open_store(corpus, tokenizers, self.recipe.batch.max_tokens, warn=log.info)
        for part, report in zip(corpus.parts, store.reports, strict=True):
            for line in report.describe(name if len(corpus.parts) == 1 else f"{name} {part.name}"):
                log.info(line)
            if not report.used:
                raise no_usable_pair(part.name, report)
        return store


def held_out_count(pairs: int, report: CorpusReport, most: int = MAX_HELD_OUT, direction: str = "") -> int:
    """Return how many pairs of the training data are held out for validation; of one `direction` of several."""
    if count := min(most, pairs // PAIRS_PER_HELD_OUT):
        return count
    if direction:
        files = "give each language pair 'valid' files in --data"
        raise UserError(f"{direction}: {pairs} pairs are too few to hold some out for validation; {files}")
    raise _too_few(pairs, report)


def _too_few(pairs: int, report: CorpusReport) -> UserError:
    why = "; ".join(report.describe("training data"))
    return UserError(f"{pairs} pairs are too few to hold some out for validation; give --valid files ({why})")


def _mean_length(store: PairStore | ShardedPairs, rows: Rows) -> float:
    """Return the mean number of tokens of the longer side, of at most 100,000 of the rows."""
    some = rows[np.arange(0, len(rows), -(-len(rows) // _MEASURED_PAIRS))]
    return float((np.maximum(*store.lengths(some)) + 1).mean())


def _warn(leakage: Leakage, log: RunLog) -> None:
    if line := leakage.describe("validation data"):
        log.info(f"warning: {line}")
