"""Translation, and any other task from one text to another."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from regard.data.batch import Batch, collate
from regard.data.batch_order import PairBatches, plan
from regard.data.pair_store import PairStore
from regard.data.resampled_pairs import Resample
from regard.data.word_alignments import AlignmentGuide
from regard.evaluate.validation import GenerationValidator
from regard.models import Model
from regard.models.encoder_only import EncoderOnly
from regard.pipelines.translator import Translator
from regard.search.decode import DecodeConfig
from regard.text.bpe_dropout import BpeDropout
from regard.text.seen_words import SeenWords
from regard.text.tokenizer import SentencePieceTokenizer, TokenizerConfig, TokenizerPair, train_tokenizer
from regard.text.unigram_sampling import UnigramSampler
from regard.train.log import RunLog
from regard.train.recipe import Recipe
from regard.train.tasks.base import TaskData, check_model, check_resampling
from regard.train.tasks.pairs import PairTask


class TranslationTask(PairTask):
    noun = "translation"
    example = 'regard translate DIR --text "…"'
    code = 'print(regard.load("this-folder").translate(["…"])[0].text)'

    @classmethod
    def check(cls, recipe: Recipe) -> None:
        check_model(recipe, "transformer", "encoder-decoder", "decoder")
        check_resampling(recipe)

    def train_tokenizers(self) -> TokenizerPair:
        config = self.recipe.tokenizer
        sources, targets = self.sample_pairs()
        if config.joint:
            joint = train_tokenizer([*sources, *targets], config)
            return TokenizerPair(joint, joint)
        return TokenizerPair(train_tokenizer(sources, config), train_tokenizer(targets, config))

    def load_data(self, tokenizers: TokenizerPair, folder: Path, log: RunLog) -> TaskData:
        recipe = self.recipe
        split = self.split(tokenizers, log)
        resample = resampling(tokenizers, recipe.tokenizer)
        guide = None
        if self.files.alignments:
            guide = AlignmentGuide.open(self.files.alignments, self.train_corpus, split.train.numbers, tokenizers)
        batches = PairBatches(split.train, split.train_rows, recipe.batch, recipe.train.seed, resample, guide=guide)
        validator = TranslationValidator(
            split.valid_rows,
            self.valid_texts(split, recipe.valid.sentences),
            tokenizers,
            recipe.valid,
            recipe.decode,
            split.valid,
            recipe.batch.tokens,
        )
        return TaskData(batches, validator)

    def count_words(self) -> SeenWords:
        return SeenWords.count(source for source, _ in self.train_corpus)


@dataclass(frozen=True)
class TranslationValidator(GenerationValidator):
    """Validates on sentence pairs."""

    store: PairStore
    batch_tokens: int

    def batches(self) -> Iterator[Batch]:
        src, tgt = self.store.lengths()
        lengths = (src[self.rows] + 1, tgt[self.rows] + 1)
        for batch in plan(lengths, self.batch_tokens, np.random.Philox(0)):
            yield collate(self.store.src(self.rows[batch]), self.store.tgt(self.rows[batch]))

    def generate(self, model: Model, device: torch.device, config: DecodeConfig) -> Iterator[str]:
        assert not isinstance(model, EncoderOnly)
        translator = Translator(model, self.tokenizers, config, device)
        return (translation.text for translation in translator.stream(src for src, _ in self.texts))


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
