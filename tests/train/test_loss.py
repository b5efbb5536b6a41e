from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from regard.data.batch import Batch
from regard.errors import UserError
from regard.nn.attention import AttentionTrace
from regard.text.vocab import PAD
from regard.train.loss import (
    GuidedAlignmentConfig,
    LossConfig,
    alignment_loss,
    batch_loss,
    loss_from_logits,
    smoothed_cross_entropy,
)
from tests.conftest import random_batch, tiny_model


def example() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    targets = torch.randint(1, 11, (3, 5))
    targets[1, 3:] = PAD
    return torch.randn(3, 5, 11, dtype=torch.float64), targets


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_the_smoothed_loss_equals_the_lecture_formula_and_torch(smoothing: float) -> None:
    logits, targets = example()
    loss, nll = smoothed_cross_entropy(logits, targets, smoothing)
    y = (1 - smoothing) * F.one_hot(targets, 11) + smoothing / 11
    by_hand = -(y * logits.log_softmax(-1)).sum(-1)[targets != PAD].sum()
    torch.testing.assert_close(loss, by_hand)
    torchs = F.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), ignore_index=PAD, label_smoothing=smoothing, reduction="sum"
    )
    torch.testing.assert_close(loss, torchs)
    torch.testing.assert_close(nll, F.cross_entropy(logits.mT, targets, ignore_index=PAD, reduction="sum"))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_explicit_gradient_equals_that_of_autograd(smoothing: float) -> None:
    logits, targets = example()
    ours, torchs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    loss, nll = smoothed_cross_entropy(ours, targets, smoothing)
    assert not nll.requires_grad
    (loss * 3).backward()  # type: ignore[no-untyped-call]
    expected = F.cross_entropy(torchs.mT, targets, ignore_index=PAD, label_smoothing=smoothing, reduction="sum")
    (expected * 3).backward()  # type: ignore[no-untyped-call]
    assert ours.grad is not None
    torch.testing.assert_close(ours.grad, torchs.grad)
    assert (ours.grad[targets == PAD] == 0).all()


def test_half_precision_logits_are_summed_in_float32() -> None:
    logits, targets = example()
    half = (30 * logits).bfloat16().requires_grad_()
    loss, _ = smoothed_cross_entropy(half, targets, 0.1)
    expected, _ = smoothed_cross_entropy(half.detach().float(), targets, 0.1)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, expected)
    loss.backward()  # type: ignore[no-untyped-call]
    assert half.grad is not None and half.grad.dtype == torch.bfloat16


@pytest.mark.parametrize("block", [1, 22, 10**6])
def test_the_loss_of_r_drop_and_its_gradient_equal_the_equation(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.train.loss._BLOCK", block)
    logits, targets = example()
    both, two = torch.cat([logits, torch.randn_like(logits)]), torch.cat([targets, targets])
    ours, theirs = both.clone().requires_grad_(), both.clone().requires_grad_()
    loss, nll = loss_from_logits(ours * 1, two, LossConfig(label_smoothing=0.1, r_drop=3.0))
    p, q = theirs.log_softmax(-1).chunk(2)
    real = targets != PAD
    divergence = F.kl_div(q[real], p[real], reduction="sum", log_target=True)
    divergence = divergence + F.kl_div(p[real], q[real], reduction="sum", log_target=True)
    options = {"ignore_index": PAD, "reduction": "sum"}
    expected = (F.cross_entropy(theirs.mT, two, label_smoothing=0.1, **options) + 1.5 * divergence) / 2
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(nll, F.cross_entropy(theirs.mT, two, **options) / 2)
    (loss * 3).backward()  # type: ignore[no-untyped-call]
    (expected * 3).backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize("r_drop", [0.0, 3.0])
def test_the_gradient_of_half_precision_logits_is_that_of_float32(r_drop: float) -> None:
    logits, targets = example()
    both, two = torch.cat([logits, torch.randn_like(logits)]).bfloat16(), torch.cat([targets, targets])
    half, whole = both.clone().requires_grad_(), both.float().requires_grad_()
    for x in (half, whole):
        loss_from_logits(x * 1, two, LossConfig(r_drop=r_drop))[0].backward()  # type: ignore[no-untyped-call]
    assert half.grad is not None and whole.grad is not None
    torch.testing.assert_close(half.grad, whole.grad.bfloat16())


def test_r_drop_without_dropout_is_the_loss_of_one_pass() -> None:
    logits, targets = example()
    plain = loss_from_logits(logits, targets, LossConfig(label_smoothing=0.1))
    twice = loss_from_logits(
        torch.cat([logits, logits]),
        torch.cat([targets, targets]),
        LossConfig(label_smoothing=0.1, r_drop=5.0),
    )
    torch.testing.assert_close(twice, plain)


def test_r_drop_runs_the_batch_twice() -> None:
    logits, targets = example()
    batches: list[Batch] = []

    def model(batch: Batch) -> torch.Tensor:
        batches.append(batch)
        return logits.repeat(len(batch.src) // 3, 1, 1)

    once = batch_loss(model, Batch(targets, targets, targets), LossConfig())
    torch.testing.assert_close(batch_loss(model, Batch(targets, targets, targets), LossConfig(r_drop=5.0)), once)
    assert torch.equal(batches[1].src, torch.cat([targets, targets]))


def traces(weights: torch.Tensor) -> list[AttentionTrace]:
    return [AttentionTrace(*(weights,) * 6) for _ in range(3)]


def test_guided_alignment_is_the_cross_entropy_of_one_heads_attention() -> None:
    scores = torch.randn(2, 4, 3, 5, dtype=torch.float64, requires_grad=True)
    weights = scores.softmax(-1)
    links = torch.zeros(2, 3, 5, dtype=torch.float64)
    links[0, 1, 2], links[1, 0, 3], links[1, 0, 4] = 1.0, 0.5, 0.5
    loss = alignment_loss(traces(weights), links, GuidedAlignmentConfig(layer=1, head=2))
    log = weights[:, 2].log()
    torch.testing.assert_close(loss, -(log[0, 1, 2] + (log[1, 0, 3] + log[1, 0, 4]) / 2))
    loss.backward()
    assert scores.grad is not None
    p = weights[0, 2, 1].detach()
    torch.testing.assert_close(scores.grad[0, 2, 1], p - torch.eye(5, dtype=torch.float64)[2], rtol=0, atol=1e-9)
    assert not scores.grad[:, [0, 1, 3]].any(), "the other heads have no gradient"
    assert GuidedAlignmentConfig().resolve_layer(6) == 4 and GuidedAlignmentConfig().resolve_layer(1) == 0
    with pytest.raises(UserError, match="no layer 1 with a head 4"):
        alignment_loss(traces(weights), links, GuidedAlignmentConfig(layer=1, head=4))
    with pytest.raises(UserError, match="no layer 0"):
        alignment_loss([], links, GuidedAlignmentConfig())


@pytest.mark.parametrize("r_drop", [0.0, 2.0])
def test_links_add_the_alignment_loss_and_nothing_else(r_drop: float) -> None:
    model, batch = tiny_model(dropout=0.0), random_batch([(3, 5), (9, 7)])
    config = LossConfig(r_drop=r_drop, guide=GuidedAlignmentConfig(weight=0.5, layer=0))
    loss, nll = batch_loss(model, batch, config)
    with_links = replace(batch, links=torch.rand(len(batch.src), batch.tgt_out.shape[1], batch.src.shape[1]).double())
    guided, same = batch_loss(model, with_links, config)
    torch.testing.assert_close(same, nll)
    assert with_links.links is not None
    expected = alignment_loss(model.forward_traced(batch)[1].cross, with_links.links, config.guide)
    torch.testing.assert_close(guided - loss, 0.5 * expected)
