"""Translation, and any other task from one text to another."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from pathlib import Path

import numpy as np
import torch

from regard.data.batch import Batch, collate
from regard.data.batch_order import PairBatches, StoredPairs, plan
from regard.data.epoch_pairs import Resample
from regard.data.mixture_order import MixtureOrder
from regard.data.modified_pairs import PairModifier
from regard.data.modifiers import Noise
from regard.data.pair_store import PairStore
from regard.data.term_annotator import TermAnnotator, frequent_words, rare_words
from regard.data.word_alignments import AlignmentGuide
from regard.errors import UserError
from regard.evaluate.validation import GenerationValidator
from regard.models import Model
from regard.models.encoder_only import EncoderOnly
from regard.pipelines.translator import Translator
from regard.search.decode import DecodeConfig
from regard.text.bpe_dropout import BpeDropout
from regard.text.seen_words import SeenWords
from regard.text.tokenizer import SentencePieceTokenizer, TokenizerConfig, TokenizerPair, train_tokenizers
from regard.text.unigram_sampling import UnigramSampler
from regard.text.vocab import UNK
from regard.train.log import RunLog
from regard.train.recipe import Recipe
from regard.train.tasks.base import TaskData, check_model, check_resampling
from regard.train.tasks.pairs import PairSplit, PairTask


class TranslationTask(PairTask):
    noun = "translation"
    example = 'regard translate DIR --text "…"'
    code = 'print(regard.load("this-folder").translate(["…"])[0].text)'

    @classmethod
    def check(cls, recipe: Recipe) -> None:
        check_model(recipe, "transformer", "encoder-decoder", "decoder")
        check_resampling(recipe)

    def train_tokenizers(self) -> TokenizerPair:
        if self.prepared:
            return self.prepared.tokenizers
        return train_tokenizers(*self.sample_pairs(), self.recipe.tokenizer)

    def load_data(self, tokenizers: TokenizerPair, folder: Path, log: RunLog) -> TaskData:
        recipe = self.recipe
        split = self.split(tokenizers, log)
        guide = None
        if self.files.alignments:
            assert isinstance(split.train, PairStore)
            guide = AlignmentGuide.open(self.files.alignments, self.train_corpus, split.train.numbers, tokenizers)
        order = self.mixture_order(split, log)
        modify = self._modifier(split, order, tokenizers) if order else self._annotator(guide, tokenizers)
        batches = PairBatches(
            split.train,
            split.train_rows,
            recipe.batch,
            recipe.train.seed,
            resampling(tokenizers, recipe.tokenizer),
            guide=guide,
            order=order,
            modify=modify,
        )
        return TaskData(batches, self._validator(split, tokenizers))

    def _validator(self, split: PairSplit, tokenizers: TokenizerPair) -> "TranslationValidator":
        """Return the validator. Of several directions, it translates the first text of each, then the second."""
        recipe = self.recipe
        groups = self.valid_texts(split, recipe.valid.sentences)
        named = [[(name, pair) for pair in pairs] for name, pairs in groups.items()]
        texts = [text for row in zip_longest(*named) for text in row if text is not None]
        return TranslationValidator(
            split.valid_rows,
            [pair for _, pair in texts],
            tokenizers,
            recipe.valid,
            recipe.decode,
            split.valid,
            recipe.batch.tokens,
            directions=[name for name, _ in texts] if len(groups) > 1 else (),
        )

    def _modifier(self, split: PairSplit, order: MixtureOrder, tokenizers: TokenizerPair) -> PairModifier | None:
        """Return what changes texts in each epoch; None: nothing."""
        modifiers = [modifier for stage in order.stages for modifier in stage.modifiers]
        if not modifiers:
            return None
        if any(isinstance(modifier, Noise) for modifier in modifiers):
            _check_noise(tokenizers)
        parts = self.train_parts
        starts = np.array([split.train.part_rows(part).start for part in parts])
        prefixes = tuple(part.prefix for part in parts)
        return PairModifier(order.modifiers, tokenizers, self.recipe.batch.max_tokens, starts, prefixes, order.seed)

    def _annotator(self, guide: AlignmentGuide | None, tokenizers: TokenizerPair) -> PairModifier | None:
        """Return what annotates terms in each epoch; None: nothing."""
        config = self.recipe.glossary
        if guide is None or not config.share:
            return None
        others = rare_words(SeenWords.count(target for _, target in self.train_corpus)) if config.other_targets else []
        if config.other_targets and not others:
            raise UserError("the target side has no word for glossary.other_targets; set it to 0")
        annotator = TermAnnotator(config, guide.links, guide.ends, frequent_words(self._words), others)
        max_tokens, seed = self.recipe.batch.max_tokens, self.recipe.train.seed
        return PairModifier(lambda epoch: [annotator], tokenizers, max_tokens, np.zeros(1, np.int64), ("",), seed)

    @cached_property
    def _words(self) -> SeenWords:
        if self.prepared:
            return self.prepared.words
        return SeenWords.count(source for source, _ in self.train_corpus)

    def count_words(self) -> SeenWords:
        return self._words


@dataclass(frozen=True)
class TranslationValidator(GenerationValidator):
    """Validates on sentence pairs."""

    store: StoredPairs
    batch_tokens: int

    def batches(self) -> Iterator[Batch]:
        src, tgt = self.store.lengths(self.rows)
        lengths = (src + 1, tgt + 1)
        for batch in plan(lengths, self.batch_tokens, np.random.Philox(0)):
            yield collate(self.store.src(self.rows[batch]), self.store.tgt(self.rows[batch]))

    def generate(self, model: Model, device: torch.device, config: DecodeConfig) -> Iterator[str]:
        assert not isinstance(model, EncoderOnly)
        translator = Translator(model, self.tokenizers, config, device)
        return (translation.text for translation in translator.stream(src for src, _ in self.texts))


def _check_noise(tokenizers: TokenizerPair) -> None:
    """Raise a UserError if a tokenizer does not know every character, and noise would be unknown tokens."""
    if any(UNK in tokenizer.encode(["ღ 가"])[0] for tokenizer in (tokenizers.src, tokenizers.tgt)):
        raise UserError("modifier Noise needs a tokenizer that knows every character: tokenizer.byte_fallback=true")


def resampling(tokenizers: TokenizerPair, config: TokenizerConfig) -> tuple[Resample, Resample] | None:
    """Return the BPE-dropout or the unigram sampling of both sides, or None if they are off."""
    src, tgt = tokenizers.src, tokenizers.tgt
    if (
        not config.resampling
        or not isinstance(src, SentencePieceTokenizer)
        or not isinstance(tgt, SentencePieceTokenizer)
    ):
        return None

    def sampler(tokenizer: SentencePieceTokenizer) -> Resample:
        return BpeDropout(tokenizer, config.dropout) if config.dropout else UnigramSampler(tokenizer, config.alpha)

    first = sampler(src)
    return first, first if tokenizers.joint else sampler(tgt)
