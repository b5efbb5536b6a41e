"""How the model does on data it was not trained on: what every task's validation gives and needs."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from regard.config import Config
from regard.data.batch import Batch
from regard.evaluate.metrics import TOKENIZERS
from regard.models import Model
from regard.text.vocab import PAD
from regard.train.loss import LossConfig, loss_from_logits

_NAMES = {"bleu": "BLEU", "chrf": "chrF", "f1": "F1"}
_PLAIN = LossConfig(label_smoothing=0.0, r_drop=0.0)


class ValidConfig(Config):
    """Validation decodes greedily by default: it is quick, and ranks checkpoints as beam search does."""

    every: int = Field(1000, ge=1)
    """Updates between two validations."""
    beam: int = Field(1, ge=1)
    sentences: int = Field(1000, ge=1)
    """At most so many are translated; the loss takes all."""
    tokenize: Literal[TOKENIZERS] = "13a"  # type: ignore[valid-type]
    """sacreBLEU's tokenizer; none for text that is tokenised already."""
    samples: int = Field(3, ge=0)
    """Translations shown."""


@dataclass(frozen=True)
class Validation:
    loss: float
    """Nats a target token"""
    rank: float
    """What checkpoints are compared by, higher is better: BLEU, accuracy, or the loss with its sign turned"""
    scores: Mapping[str, float]
    """As they are shown and recorded, by name"""
    signature: str = ""
    """Of the BLEU, as sacreBLEU prints it"""
    samples: tuple[tuple[str, str, str], ...] = field(default=())
    """(source, reference, answer)"""

    def describe(self) -> str:
        shown = [f"{_NAMES.get(name, name.replace('_', ' '))} {value:.4g}" for name, value in self.scores.items()]
        return "  ".join([f"loss {self.loss:.4f}", *shown])


class Validator(Protocol):
    """The validation data of a task, and how a model answers them."""

    @property
    def config(self) -> ValidConfig: ...

    @property
    def fingerprint(self) -> str:
        """Of the data; a resumed run must find the same."""
        ...

    @property
    def size(self) -> int: ...

    def __call__(self, model: Model, device: torch.device, check_stop: Callable[[], None]) -> Validation: ...


def fingerprint_rows(store: str, rows: NDArray[np.int64]) -> str:
    """Of some rows of a store with that fingerprint"""
    return hashlib.sha256(store.encode() + rows.tobytes()).hexdigest()


@torch.inference_mode()
def mean_loss(model: Model, batches: Iterable[Batch], device: torch.device, check_stop: Callable[[], None]) -> float:
    """Negative log-likelihood a target token"""
    total, tokens = 0.0, 0
    for batch in batches:
        moved = batch.to(device)
        total += float(loss_from_logits(model(moved), moved.tgt_out, _PLAIN)[1])
        tokens += int((batch.tgt_out != PAD).sum())
        check_stop()
    return total / max(1, tokens)
