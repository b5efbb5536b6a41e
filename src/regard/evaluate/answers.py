"""Validation by answers: what the model says to some of the sources, held against what was to be said."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.batch import Batch
from regard.evaluate.metrics import ScoreOptions, corpus_scores
from regard.evaluate.validation import Validation, ValidConfig, fingerprint_rows, mean_loss
from regard.models import Model
from regard.search.decode import DecodeConfig
from regard.text.tokenizer import TokenizerPair


@dataclass(frozen=True)
class AnswerValidator(ABC):
    """The loss over all rows, and answers to the first of them."""

    rows: NDArray[np.int64]
    texts: Sequence[tuple[str, str]]
    """(source, reference) of the first rows as they were written"""
    tokenizers: TokenizerPair
    config: ValidConfig
    decode: DecodeConfig
    store: Any

    @abstractmethod
    def batches(self) -> Iterable[Batch]:
        """All rows, for the loss"""

    @abstractmethod
    def answers(self, model: Model, device: torch.device, config: DecodeConfig) -> Iterator[str]:
        """To the sources of `texts`, in order"""

    @property
    def fingerprint(self) -> str:
        return fingerprint_rows(self.store.fingerprint, self.rows)

    @property
    def size(self) -> int:
        return len(self.rows)

    def __call__(self, model: Model, device: torch.device, check_stop: Callable[[], None]) -> Validation:
        model.eval()
        loss = mean_loss(model, self.batches(), device, check_stop)
        config = self.decode.model_copy(update={"beam": self.config.beam, "n_best": 1, "sampling": None})
        answers: list[str] = []
        for answer in self.answers(model, device, config):
            answers.append(answer)
            check_stop()
        sources, references = [source for source, _ in self.texts], [reference for _, reference in self.texts]
        return judged(loss, sources, references, answers, self.config)


def judged(
    loss: float, sources: Sequence[str], references: Sequence[str], answers: Sequence[str], config: ValidConfig
) -> Validation:
    """Answers against their references: BLEU, chrF, and how many are exactly right."""
    scores = corpus_scores(answers, references, ScoreOptions(tokenize=config.tokenize), names=("BLEU", "chrF2"))
    bleu, chrf = scores["BLEU"], scores["chrF2"]
    exact = 100.0 * sum(a == r for a, r in zip(answers, references, strict=True)) / len(references)
    shown = tuple(zip(sources, references, answers, strict=True))[: config.samples]
    values = {"bleu": bleu.score, "chrf": chrf.score, "exact": exact}
    return Validation(loss, bleu.score, values, bleu.signature, shown)
