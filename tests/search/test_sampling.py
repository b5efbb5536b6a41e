"""Sampling: the filters, the distribution and the seeds."""

import pytest
import torch

from regard.data.batch import collate_sources
from regard.search.decode import DecodeConfig, decode
from regard.search.sampling import SamplingConfig, TokenPenalties, filter_probabilities
from tests.search.table_model import A, B, C, TableModel, probabilities


def test_filters_keep_the_most_likely_tokens() -> None:
    log_probs = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    assert (filter_probabilities(log_probs, SamplingConfig(top_k=2)) > 0).tolist() == [[True, True, False, False]]
    assert (filter_probabilities(log_probs, SamplingConfig(top_p=0.7)) > 0).tolist() == [[True, True, False, False]]
    assert (filter_probabilities(log_probs, SamplingConfig(top_p=0.01)) > 0).tolist() == [[True, False, False, False]]
    low_temperature = filter_probabilities(log_probs, SamplingConfig(temperature=0.1))
    assert low_temperature[0, 0] > 0.99


@pytest.mark.parametrize(("epsilon", "kept"), [(0.0, 4), (0.05, 4), (0.1, 3), (0.4, 1), (0.9, 1), (5e-324, 4)])
def test_epsilon_leaves_out_unlikely_tokens_but_never_the_most_likely(epsilon: float, kept: int) -> None:
    log_probs = torch.tensor([[0.05, 0.5, 0.3, 0.15]], dtype=torch.float64).log()
    plain = filter_probabilities(log_probs, SamplingConfig())
    filtered = filter_probabilities(log_probs, SamplingConfig(epsilon=epsilon))
    assert int((filtered > 0).sum()) == kept
    assert torch.equal(filtered, torch.where(filtered > 0, plain, 0.0)), "the others keep their probabilities"


def test_epsilon_samples_what_sampling_does_without_the_tokens_that_it_leaves_out() -> None:
    model, batch = TableModel({(): probabilities(0.6, 0.37, 0.03, 0.0)}), collate_sources([[6]])

    def sample(**options: float) -> list[tuple[int, ...]]:
        config = DecodeConfig(n_best=500, max_len=1, sampling=SamplingConfig(**options))
        return [h.ids for h in decode(model, batch, config)[0]]

    assert sample(epsilon=0.0) == sample(epsilon=0.001) == sample()
    assert (C,) in sample() and set(sample(epsilon=0.05)) == {(A,), (B,)} and sample(epsilon=0.05) == sample(top_k=2)


def test_samples_follow_the_distribution_and_the_seed() -> None:
    model, batch = TableModel({(): probabilities(0.6, 0.3, 0.1, 0.0)}), collate_sources([[6]])

    def sample(seed: int) -> list[tuple[int, ...]]:
        config = DecodeConfig(n_best=3000, max_len=1, sampling=SamplingConfig(seed=seed))
        return [h.ids for h in decode(model, batch, config)[0]]

    samples = sample(1)
    assert samples == sample(1) and samples != sample(2)
    for token, p in ((A, 0.6), (B, 0.3), (C, 0.1)):
        assert samples.count((token,)) / 3000 == pytest.approx(p, abs=0.04)


def test_penalties_grow_with_the_number_of_repetitions() -> None:
    log_probs = torch.tensor([[-1.0, -2.0, -torch.inf, -3.0]])
    penalties = TokenPenalties(presence=0.5, frequency=0.25, bias=((3, 2.0), (0, -1.0)))
    torch.testing.assert_close(penalties(log_probs, []), torch.tensor([[-2.0, -2.0, -torch.inf, -1.0]]))
    changed = penalties(log_probs, [1, 0, 1, 1])
    torch.testing.assert_close(changed, torch.tensor([[-2.75, -3.25, -torch.inf, -1.0]]))
    assert log_probs[0, 0] == -1.0, "the model's own stay as they are"
