"""Pairs of sentences: translation, and every other way from one text to another."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.batch import Batch, collate
from regard.data.batching import PairBatches, plan
from regard.data.corpus import Corpus, CorpusReport, SentencePair
from regard.data.pair_store import PairStore, open_store
from regard.data.word_alignments import AlignmentGuide
from regard.errors import UserError
from regard.evaluate.validation import GenerationValidator
from regard.models import Model
from regard.models.encoder_only import EncoderOnly
from regard.pipelines.translator import Translator
from regard.search.decode import DecodeConfig
from regard.text.bpe_dropout import BpeDropout
from regard.text.tokenizer import SentencePieceTokenizer, TokenizerPair, train_tokenizer
from regard.train.log import RunLog
from regard.train.recipe import Recipe
from regard.train.tasks.base import Data, Files, check_dropout, check_model, sample

_HOLD_OUT = 1_000


class Translating:
    noun = "translation"
    example = 'regard translate DIR --text "…"'
    code: str = 'print(regard.load("this-folder").translate(["…"])[0].text)'

    def check(self, recipe: Recipe) -> None:
        check_model(recipe, "transformer", "encoder-decoder", "decoder")
        check_dropout(recipe)

    def tokenizers(self, files: Files) -> TokenizerPair:
        config = files.recipe.tokenizer
        corpus = corpus_of(files, files.train)
        pairs = sample(corpus.pairs(CorpusReport()), files.recipe.train.seed)
        if not pairs:
            raise UserError(no_pairs(corpus))
        src, tgt = zip(*pairs, strict=True)
        if config.joint:
            joint = train_tokenizer([*src, *tgt], config)
            return TokenizerPair(joint, joint)
        return TokenizerPair(train_tokenizer(src, config), train_tokenizer(tgt, config))

    def data(self, files: Files, tokenizers: TokenizerPair, folder: Path, log: RunLog) -> Data:
        recipe = files.recipe
        split = split_pairs(files, tokenizers, log)
        resample = _resamplers(tokenizers, recipe.tokenizer.dropout)
        guide = None
        if files.alignments:
            guide = AlignmentGuide.open(
                files.alignments, corpus_of(files, files.train), split.train.numbers, tokenizers
            )
        batches = PairBatches(split.train, split.train_rows, recipe.batch, recipe.train.seed, resample, guide=guide)
        validator = TranslationValidator(
            split.valid_rows,
            split.valid_texts(recipe.valid.sentences),
            tokenizers,
            recipe.valid,
            recipe.decode,
            split.valid,
            recipe.batch.tokens,
        )
        return Data(batches, validator)


@dataclass(frozen=True)
class Split:
    """Training pairs and validation pairs, of files of their own or held out."""

    train: PairStore
    train_rows: NDArray[np.int64]
    valid: PairStore
    valid_rows: NDArray[np.int64]
    valid_corpus: Corpus

    def valid_texts(self, n: int) -> list[SentencePair]:
        """The first n as they were written, which ids need not tell"""
        numbers = self.valid.numbers[self.valid_rows[:n]]
        wanted = set(numbers.tolist())
        found = {i: pair for i, pair in enumerate(self.valid_corpus.pairs(CorpusReport())) if i in wanted}
        return [found[i] for i in numbers.tolist()]


def split_pairs(files: Files, tokenizers: TokenizerPair, log: RunLog) -> Split:
    corpus = corpus_of(files, files.train)
    store = _opened(corpus, tokenizers, files.recipe.batch.max_tokens, "training data", log)
    if files.valid is not None:
        valid_corpus = corpus_of(files, files.valid)
        valid = _opened(valid_corpus, tokenizers, files.recipe.batch.max_tokens, "validation data", log)
        return Split(store, np.arange(len(store)), valid, np.arange(len(valid)), valid_corpus)
    shuffled = np.random.Generator(np.random.Philox(key=files.recipe.train.seed)).permutation(len(store))
    n_valid = min(_HOLD_OUT, len(store) // 20)
    if n_valid == 0:
        raise UserError(f"{len(store)} pairs are too few to hold some out; give --valid files")
    log.say(f"validation data: {n_valid:,} pairs held out of the training data")
    return Split(store, np.sort(shuffled[n_valid:]), store, np.sort(shuffled[:n_valid]), corpus)


def _opened(corpus: Corpus, tokenizers: TokenizerPair, limit: int, name: str, log: RunLog) -> PairStore:
    store = open_store(corpus, tokenizers, limit)
    for line in store.report.describe(name):
        log.say(line)
    if not len(store):
        raise UserError(no_pairs(corpus))
    return store


def corpus_of(files: Files, paths: tuple[Path, ...]) -> Corpus:
    return Corpus(paths, files.languages)


def no_pairs(corpus: Corpus) -> str:
    report = CorpusReport()
    for _ in corpus.pairs(report):
        pass
    return f"no usable pair of sentences: {'; '.join(report.describe(' + '.join(p.name for p in corpus.paths)))}"


@dataclass(frozen=True)
class TranslationValidator(GenerationValidator):
    """The validation pairs as ids (for the loss) and as texts (for BLEU)."""

    store: PairStore
    batch_tokens: int

    def batches(self) -> Iterator[Batch]:
        src, tgt = self.store.lengths()
        lengths = (src[self.rows] + 1, tgt[self.rows] + 1)
        for chosen in plan(lengths, self.batch_tokens, np.random.Philox(0)):
            yield collate(self.store.src(self.rows[chosen]), self.store.tgt(self.rows[chosen]))

    def generate(self, model: Model, device: torch.device, config: DecodeConfig) -> Iterator[str]:
        assert not isinstance(model, EncoderOnly)
        translator = Translator(model, self.tokenizers, config, device)
        return (translation.text for translation in translator.stream(src for src, _ in self.texts))


def _resamplers(tokenizers: TokenizerPair, dropout: float) -> tuple[BpeDropout, BpeDropout] | None:
    src, tgt = tokenizers.src, tokenizers.tgt
    if not dropout or not isinstance(src, SentencePieceTokenizer) or not isinstance(tgt, SentencePieceTokenizer):
        return None
    first = BpeDropout(src, dropout)
    return first, first if tokenizers.joint else BpeDropout(tgt, dropout)
