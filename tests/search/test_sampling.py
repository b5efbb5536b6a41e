"""Sampling: the filters, the distribution and the seeds."""

import pytest
import torch

from regard.data.batch import collate_sources
from regard.search.decode import DecodeConfig, decode
from regard.search.sampling import SamplingConfig, filter_probabilities
from tests.search.table_model import A, B, C, TableModel, probabilities


def test_filters_keep_the_most_likely_tokens() -> None:
    log_probs = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    assert (filter_probabilities(log_probs, 1.0, 2, 1.0) > 0).tolist() == [[True, True, False, False]]
    assert (filter_probabilities(log_probs, 1.0, 0, 0.7) > 0).tolist() == [[True, True, False, False]]
    assert (filter_probabilities(log_probs, 1.0, 0, 0.01) > 0).tolist() == [[True, False, False, False]]
    low_temperature = filter_probabilities(log_probs, 0.1, 0, 1.0)
    assert low_temperature[0, 0] > 0.99


def test_samples_follow_the_distribution_and_the_seed() -> None:
    model, batch = TableModel({(): probabilities(0.6, 0.3, 0.1, 0.0)}), collate_sources([[6]])

    def sample(seed: int) -> list[tuple[int, ...]]:
        config = DecodeConfig(n_best=3000, max_len=1, sampling=SamplingConfig(seed=seed))
        return [h.ids for h in decode(model, batch, config)[0]]

    samples = sample(1)
    assert samples == sample(1) and samples != sample(2)
    for token, p in ((A, 0.6), (B, 0.3), (C, 0.1)):
        assert samples.count((token,)) / 3000 == pytest.approx(p, abs=0.04)
