"""Classification: texts with labels from a TSV."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from regard.data.batch import Batch, collate_labels
from regard.data.batch_order import PairBatches
from regard.data.parallel_corpus import SentencePair
from regard.errors import UserError
from regard.evaluate.classification import label_scores
from regard.evaluate.validation import Validation, ValidConfig, fingerprint_rows, mean_loss
from regard.models import Model
from regard.pipelines.classifier import Classifier
from regard.text.list_tokenizer import ListTokenizer
from regard.text.tokenizer import TokenizerPair, train_tokenizer
from regard.train.log import RunLog
from regard.train.recipe import Recipe
from regard.train.tasks.base import TaskData, check_model, check_resampling
from regard.train.tasks.pairs import PairSplit, PairTask

_MAX_LABELS = 1_000
_VALID_ROWS = 256  # per batch


class ClassificationTask(PairTask):
    noun = "text-classification"
    example = 'regard classify DIR --text "…"'
    code = 'print(regard.load("this-folder").classify(["…"])[0].label)'

    @classmethod
    def check(cls, recipe: Recipe) -> None:
        check_model(recipe, "encoder")
        check_resampling(recipe)

    def train_tokenizers(self) -> TokenizerPair:
        texts, labels = self.sample_pairs()
        return TokenizerPair(train_tokenizer(texts, self.recipe.tokenizer), label_tokenizer(labels))

    def load_data(self, tokenizers: TokenizerPair, folder: Path, log: RunLog) -> TaskData:
        recipe = self.recipe
        split = self.split(tokenizers, log)
        batches = PairBatches(split.train, split.train_rows, recipe.batch, recipe.train.seed, collate=collate_labels)
        return TaskData(batches, LabelValidator(split, self.valid_texts(split)[""], tokenizers, recipe.valid))


def label_tokenizer(labels: Sequence[str]) -> ListTokenizer:
    """Return a tokenizer for which each label, with any spaces in it, is one token."""
    names = sorted(set(labels))
    if len(names) > _MAX_LABELS:
        raise UserError(
            f"{len(names):,} different labels; the second column must be a label, with at most {_MAX_LABELS} different"
        )
    return ListTokenizer("label", names)


@dataclass(frozen=True)
class LabelValidator:
    """Validates on texts with labels: loss, accuracy and macro F1."""

    split: PairSplit
    texts: Sequence[SentencePair]
    """(text, label) of all validation rows"""
    tokenizers: TokenizerPair
    config: ValidConfig

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
        predictions = [c.label for c in Classifier(model, self.tokenizers, device).classify(texts)]
        scores = label_scores(labels, predictions)
        samples = tuple(zip(texts, labels, predictions, strict=True))[: self.config.samples]
        return Validation(loss, scores["accuracy"], scores, samples=samples)

    def _batches(self) -> Iterator[Batch]:
        rows, store = self.split.valid_rows, self.split.valid
        for i in range(0, len(rows), _VALID_ROWS):
            batch = rows[i : i + _VALID_ROWS]
            yield collate_labels(store.src(batch), store.tgt(batch), None)
