"""Texts with labels: a TSV of text and label."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from regard.data.batch import Batch, collate_labels
from regard.data.batching import PairBatches
from regard.data.corpus import CorpusReport, SentencePair
from regard.errors import UserError
from regard.evaluate.classification import label_scores
from regard.evaluate.validation import Validation, ValidConfig, fingerprint_rows, mean_loss
from regard.models import Model
from regard.pipelines.classifier import Classifier
from regard.text.tokenizer import ListTokenizer, TokenizerPair, train_tokenizer
from regard.train.log import RunLog
from regard.train.recipe import Recipe
from regard.train.tasks.base import Data, Files, check_dropout, check_model, sample
from regard.train.tasks.translate import Split, corpus_of, no_pairs, split_pairs

_MOST_LABELS = 1_000


class Classification:
    noun: str = "text-classification"
    example: str = 'regard classify DIR --text "…"'
    code: str = 'print(regard.load("this-folder").classify(["…"])[0].label)'

    def check(self, recipe: Recipe) -> None:
        check_model(recipe, "encoder")
        check_dropout(recipe)

    def tokenizers(self, files: Files) -> TokenizerPair:
        corpus = corpus_of(files, files.train)
        pairs = sample(corpus.pairs(CorpusReport()), files.recipe.train.seed)
        if not pairs:
            raise UserError(no_pairs(corpus))
        texts, labels = zip(*pairs, strict=True)
        return TokenizerPair(train_tokenizer(texts, files.recipe.tokenizer), label_tokenizer(labels))

    def data(self, files: Files, tokenizers: TokenizerPair, folder: Path, log: RunLog) -> Data:
        recipe = files.recipe
        split = split_pairs(files, tokenizers, log)
        batches = PairBatches(split.train, split.train_rows, recipe.batch, recipe.train.seed, collate=collate_labels)
        texts = split.valid_texts(len(split.valid_rows))
        return Data(batches, LabelValidator(split, texts, tokenizers, recipe.valid, recipe.batch.tokens))


def label_tokenizer(labels: Sequence[str]) -> ListTokenizer:
    """A label is one token, blanks and all."""
    names = sorted(set(labels))
    if len(names) > _MOST_LABELS:
        raise UserError(
            f"{len(names):,} different labels; the second column must be a label, of {_MOST_LABELS} at most"
        )
    return ListTokenizer("label", names)


@dataclass(frozen=True)
class LabelValidator:
    split: Split
    texts: Sequence[SentencePair]
    tokenizers: TokenizerPair
    config: ValidConfig
    batch_tokens: int

    @property
    def fingerprint(self) -> str:
        return fingerprint_rows(self.split.valid.fingerprint, self.split.valid_rows)

    @property
    def size(self) -> int:
        return len(self.split.valid_rows)

    def __call__(self, model: Model, device: torch.device, check_stop: Callable[[], None]) -> Validation:
        model.eval()
        loss = mean_loss(model, self._batches(), device, check_stop)
        texts, labels = [text for text, _ in self.texts], [label for _, label in self.texts]
        answers = [c.label for c in Classifier(model, self.tokenizers, device).classify(texts)]
        scores = label_scores(labels, answers)
        shown = tuple(zip(texts, labels, answers, strict=True))[: self.config.samples]
        return Validation(loss, scores["accuracy"], scores, samples=shown)

    def _batches(self) -> Iterator[Batch]:
        rows, store = self.split.valid_rows, self.split.valid
        for i in range(0, len(rows), 256):
            yield collate_labels(store.src(rows[i : i + 256]), store.tgt(rows[i : i + 256]), None)
