import pytest
import torch
from torch.nn import functional as F

from regard.data.batch import Batch
from regard.text.vocab import PAD
from regard.train.loss import LossConfig, batch_loss, disagreement, loss_of_logits, smoothed_cross_entropy


def example() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    targets = torch.randint(1, 11, (3, 5))
    targets[1, 3:] = PAD
    return torch.randn(3, 5, 11, dtype=torch.float64), targets


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_smoothed_loss_is_the_lecture_formula_and_torchs(smoothing: float) -> None:
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
def test_written_gradient_is_autograds(smoothing: float) -> None:
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


def test_disagreement_is_both_divergences() -> None:
    logits, targets = example()
    p, q = logits.log_softmax(-1), torch.randn_like(logits).log_softmax(-1)
    real = targets != PAD
    expected = F.kl_div(q[real], p[real], reduction="sum", log_target=True)
    expected = expected + F.kl_div(p[real], q[real], reduction="sum", log_target=True)
    torch.testing.assert_close(disagreement(p, q, targets), expected)
    assert disagreement(p, p, targets) == 0


def test_r_drop_without_dropout_is_the_plain_loss() -> None:
    logits, targets = example()
    plain = loss_of_logits(logits, targets, LossConfig(label_smoothing=0.1))
    twice = loss_of_logits(
        torch.cat([logits, logits]),
        torch.cat([targets, targets]),
        LossConfig(label_smoothing=0.1, r_drop=5.0),
    )
    torch.testing.assert_close(twice, plain)


def test_r_drop_shows_the_batch_twice() -> None:
    logits, targets = example()
    shown: list[Batch] = []

    def model(batch: Batch) -> torch.Tensor:
        shown.append(batch)
        return logits.repeat(len(batch.src) // 3, 1, 1)

    once = batch_loss(model, targets, targets, targets, LossConfig())
    torch.testing.assert_close(batch_loss(model, targets, targets, targets, LossConfig(r_drop=5.0)), once)
    assert torch.equal(shown[1].src, torch.cat([targets, targets]))


def test_r_drop_pulls_two_passes_together() -> None:
    logits, targets = example()
    other = torch.randn_like(logits)
    two = torch.cat([targets, targets])
    weak = loss_of_logits(torch.cat([logits, other]), two, LossConfig(r_drop=1.0))[0]
    strong = loss_of_logits(torch.cat([logits, other]), two, LossConfig(r_drop=3.0))[0]
    apart = disagreement(logits.log_softmax(-1), other.log_softmax(-1), targets)
    torch.testing.assert_close(strong - weak, apart / 2)
