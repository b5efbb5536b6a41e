import torch

from regard.nn.dropout import Dropout, dropout_factors


def test_the_share_of_dropped_numbers_is_p_in_every_lane_and_the_mean_is_kept() -> None:
    torch.manual_seed(0)
    for p in (0.1, 0.5, 0.999999):
        factors = dropout_factors(torch.empty(40_001, dtype=torch.float64), p)
        by_lane = (factors[:40_000] == 0).double().view(-1, 4).mean(0)  # four decisions come from one random word
        assert (by_lane - p).abs().max() < 0.02
        assert set(factors.unique().tolist()) <= {0.0, factors.max().item()}
    assert abs(dropout_factors(torch.empty(40_000), 0.1).mean() - 1) < 0.01


def test_dropout_is_off_in_evaluation_and_adds_to_a_residual() -> None:
    x, y = torch.randn(2, 3, 5), torch.randn(2, 3, 5, requires_grad=True)
    dropout = Dropout(0.5).eval()
    assert torch.equal(dropout(x), x) and torch.equal(dropout.add(x, y), x + y)
    dropout.train()
    torch.manual_seed(3)
    alone = dropout(y)
    torch.manual_seed(3)
    added = dropout.add(x, y)
    torch.testing.assert_close(added, x + alone)
    added.sum().backward()  # type: ignore[no-untyped-call]
    assert y.grad is not None and torch.equal(y.grad == 0, alone == 0)
