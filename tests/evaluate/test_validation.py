from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from regard.data.batch import Batch
from regard.evaluate.validation import (
    GenerationValidator,
    Validation,
    ValidConfig,
    mean_loss,
    negative_log_likelihood,
)
from regard.search.decode import DecodeConfig
from regard.text.vocab import PAD
from tests.conftest import random_batch, tiny_model

NAN = float("nan")


def test_negative_log_likelihood_is_torchs_cross_entropy() -> None:
    torch.manual_seed(0)
    logits, targets = torch.randn(3, 5, 11, dtype=torch.float64), torch.randint(1, 11, (3, 5))
    targets[1, 3:] = PAD
    expected = F.cross_entropy(logits.mT, targets, ignore_index=PAD, reduction="sum")
    torch.testing.assert_close(negative_log_likelihood(logits, targets), expected)
    half = negative_log_likelihood(logits.bfloat16(), targets)
    assert half.dtype == torch.float32, "half precision is summed in float32"


def test_mean_loss_does_not_depend_on_how_rows_are_batched() -> None:
    model, cpu = tiny_model(), torch.device("cpu")
    batch = random_batch([(3, 5), (9, 7), (4, 2)])
    parts = [batch.select(torch.tensor([0, 2])), batch.select(torch.tensor([1]))]
    calls: list[None] = []
    apart = mean_loss(model, parts, cpu, lambda: calls.append(None))
    assert len(calls) == 2
    assert abs(apart - mean_loss(model, [batch], cpu, lambda: None)) < 1e-12


def test_mean_loss_is_the_same_if_a_batch_does_not_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    model, cpu, batch = tiny_model(), torch.device("cpu"), random_batch([(3, 5), (9, 7), (4, 2), (1, 1), (6, 6)])
    expected, forward = mean_loss(model, [batch], cpu, lambda: None), model.forward

    def limited(part: Batch) -> torch.Tensor:
        if part.size > 2:
            raise torch.OutOfMemoryError
        return forward(part)

    monkeypatch.setattr(model, "forward", limited)
    assert abs(mean_loss(model, [batch], cpu, lambda: None) - expected) < 1e-12


def test_validations_are_ordered_by_rank_then_loss_and_nan_is_worst() -> None:
    worst, broken, weak, fair, best = [
        Validation(loss, rank, {}).order for loss, rank in ((NAN, NAN), (NAN, 1.0), (2.0, 1.0), (1.0, 1.0), (9.0, 2.0))
    ]
    assert sorted([best, weak, worst, fair, broken]) == [worst, broken, weak, fair, best]


@dataclass(frozen=True)
class FixedOutputs(GenerationValidator):
    """A validator that needs no model"""

    outputs: tuple[str, ...] = ()

    def batches(self) -> list[Batch]:
        return []

    def generate(self, model: object, device: object, config: object) -> Iterator[str]:
        return iter(self.outputs)


def test_the_scores_of_several_directions_are_those_of_each_and_their_mean() -> None:
    texts = [(f"s{i}", f"the cat sat on mat number {i} again") for i in range(6)]
    outputs = tuple(reference if i % 3 else "the dog" for i, (_, reference) in enumerate(texts))

    def validate(rows: list[int], directions: list[str]) -> Validation:
        chosen = [texts[i] for i in rows], tuple(outputs[i] for i in rows)
        validator = FixedOutputs(
            *(np.arange(len(rows)), chosen[0], None, ValidConfig(), DecodeConfig(), None),  # type: ignore[arg-type]
            outputs=chosen[1],
            directions=directions,
        )
        return validator(tiny_model(), torch.device("cpu"), lambda: None)

    together = validate([0, 1, 2, 3, 4, 5], ["en-fr", "en-de"] * 3)
    alone = {"en-fr": validate([0, 2, 4], []), "en-de": validate([1, 3, 5], [])}
    assert together.by_direction == {name: each.rank for name, each in alone.items()}
    for name, value in together.scores.items():
        assert value == pytest.approx(sum(each.scores[name] for each in alone.values()) / 2)
    assert together.rank == together.scores["bleu"] and together.metrics()["bleu_en-de"] == alone["en-de"].rank
    assert not alone["en-fr"].by_direction and "BLEU of en-fr" in together.describe()
