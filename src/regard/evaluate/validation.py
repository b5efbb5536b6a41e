"""Validation during training: the loss and scores of a model on held-out data."""

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from regard.config import Config
from regard.data.batch import Batch, run_parts
from regard.evaluate.metrics import BLEU_TOKENIZERS, score_texts
from regard.models import Model
from regard.search.decode import DecodeConfig
from regard.text.tokenizer import TokenizerPair
from regard.text.vocab import PAD

_DISPLAY_NAMES = {"bleu": "BLEU", "chrf": "chrF", "f1": "F1"}


class ValidConfig(Config):
    """Validation decodes greedily by default: it is fast, and ranks checkpoints as beam search does."""

    every: int = Field(1000, ge=1)
    """Updates between two validations."""
    beam: int = Field(1, ge=1, le=1000)
    sentences: int = Field(1000, ge=1)
    """Maximum number of sentences to translate. The loss is computed on all validation data."""
    tokenize: Literal[BLEU_TOKENIZERS] = "13a"  # type: ignore[valid-type]
    """sacreBLEU's tokenizer; none for text that is already tokenised."""
    samples: int = Field(3, ge=0)
    """Number of translations to show."""


@dataclass(frozen=True)
class Validation:
    """The result of one validation."""

    loss: float
    """Nats per target token"""
    rank: float
    """The value that checkpoints are compared by, higher is better: BLEU, accuracy, or the negative loss"""
    scores: Mapping[str, float]
    """Scores to display and record, by name"""
    signature: str = ""
    """sacreBLEU's signature of the BLEU score"""
    samples: tuple[tuple[str, str, str], ...] = field(default=())
    """(source, reference, output)"""
    by_direction: Mapping[str, float] = field(default_factory=dict)
    """BLEU of each language pair, if there are several; `scores` are then means"""

    @property
    def order(self) -> tuple[float, float]:
        return validation_order(self.rank, self.loss)

    def describe(self) -> str:
        scores = [f"{_DISPLAY_NAMES.get(n, n.replace('_', ' '))} {value:.4g}" for n, value in self.scores.items()]
        directions = [f"BLEU of {name} {value:.4g}" for name, value in self.by_direction.items()]
        return "  ".join([f"loss {self.loss:.4f}", *scores, *directions])

    def metrics(self) -> dict[str, float]:
        """Return all scores by the names that they are recorded under."""
        return {**self.scores, **{f"bleu_{name}": value for name, value in self.by_direction.items()}}


def validation_order(rank: float, loss: float) -> tuple[float, float]:
    """Return a sort key: greater is better, ties in rank are decided by the lower loss, NaN is worst."""
    worst = float("-inf")
    return (worst if math.isnan(rank) else rank, worst if math.isnan(loss) else -loss)


class Validator(Protocol):
    """The validation data of a task and how a model is validated on them."""

    @property
    def config(self) -> ValidConfig: ...

    @property
    def fingerprint(self) -> str:
        """Hash of the data; a resumed run must have the same."""
        ...

    @property
    def size(self) -> int:
        """Number of examples"""
        ...

    def __call__(self, model: Model, device: torch.device, check_stop: Callable[[], None]) -> Validation:
        """Validate the model. `check_stop` is called between batches and may raise to interrupt."""
        ...


@dataclass(frozen=True)
class GenerationValidator(ABC):
    """Validator for models that generate text: the loss over all rows, and BLEU, chrF and exact match of some."""

    rows: NDArray[np.int64]
    """The validation rows of `store`"""
    texts: Sequence[tuple[str, str]]
    """(source, reference) of the first rows, as text"""
    tokenizers: TokenizerPair
    config: ValidConfig
    decode: DecodeConfig
    store: Any
    directions: Sequence[str] = field(default=(), kw_only=True)
    """The language pair of each of `texts`, if there are several"""

    @abstractmethod
    def batches(self) -> Iterable[Batch]:
        """Yield all rows for the loss."""

    @abstractmethod
    def generate(self, model: Model, device: torch.device, config: DecodeConfig) -> Iterator[str]:
        """Yield the model's output for each source of `texts`, in order."""

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
        outputs: list[str] = []
        for output in self.generate(model, device, config):
            outputs.append(output)
            check_stop()
        sources, references = [source for source, _ in self.texts], [reference for _, reference in self.texts]
        samples = tuple(zip(sources, references, outputs, strict=True))[: self.config.samples]
        groups = _group_texts(outputs, references, self.directions)
        scores = {name: score_texts(*texts, self.config.tokenize) for name, texts in groups.items()}
        mean = _mean_scores([each.by_name() for each in scores.values()])
        by_direction = {name: each.bleu for name, each in scores.items()} if self.directions else {}
        signature = next(iter(scores.values())).signature
        return Validation(loss, mean["bleu"], mean, signature, samples, by_direction)


def _group_texts(
    outputs: Sequence[str], references: Sequence[str], directions: Sequence[str]
) -> dict[str, tuple[list[str], list[str]]]:
    """Return the outputs and references of each direction; all of them if there are no directions."""
    groups: dict[str, tuple[list[str], list[str]]] = {}
    for name, output, reference in zip(directions or [""] * len(outputs), outputs, references, strict=True):
        group = groups.setdefault(name, ([], []))
        group[0].append(output)
        group[1].append(reference)
    return groups


def _mean_scores(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: sum(each[name] for each in scores) / len(scores) for name in scores[0]}


def fingerprint_rows(store: str, rows: NDArray[np.int64]) -> str:
    """Return a hash of some rows of the store with the fingerprint `store`."""
    return hashlib.sha256(store.encode() + rows.tobytes()).hexdigest()


@torch.inference_mode()
def mean_loss(model: Model, batches: Iterable[Batch], device: torch.device, check_stop: Callable[[], None]) -> float:
    """Return the negative log-likelihood per target token."""
    total, tokens = 0.0, 0

    def nll(batch: Batch) -> float:
        return float(negative_log_likelihood(model(batch), batch.tgt_out))

    for batch in batches:
        total += sum(run_parts(nll, batch, device))
        tokens += int((batch.tgt_out != PAD).sum())
        check_stop()
    return total / max(1, tokens)


def negative_log_likelihood(logits: Tensor, targets: Tensor) -> Tensor:
    """Return −Σ_t log p(y_t) over the targets [B, T] that are not padding, for logits [B, T, V]."""
    z = logits.to(torch.promote_types(logits.dtype, torch.float32))
    nll = z.logsumexp(-1) - z.gather(-1, targets[..., None]).squeeze(-1)
    return nll.masked_fill(targets == PAD, 0.0).sum()
