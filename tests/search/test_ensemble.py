"""Ensembles: averaged probabilities, and the shortest maximum length of all members."""

import torch

from regard.data.batch import collate_sources
from regard.search.decode import DecodeConfig, decode
from regard.search.ensemble import Ensemble
from regard.text.vocab import BOS
from tests.conftest import tiny_model
from tests.search.cases import SOURCES, assert_same_hypotheses, searches_and_sampling


@searches_and_sampling
def test_an_ensemble_of_one_model_or_of_its_copies_equals_the_model(config: DecodeConfig) -> None:
    model, batch = tiny_model(3), collate_sources(SOURCES)
    expected = decode(model, batch, config)
    assert_same_hypotheses(decode(Ensemble([model]), batch, config), expected)
    assert_same_hypotheses(decode(Ensemble([model, model]), batch, config), expected)


def test_probabilities_are_averaged() -> None:
    members = [tiny_model(4), tiny_model(5)]
    batch, ids = collate_sources([[7, 8]]), torch.tensor([BOS])
    ensemble = Ensemble(members)
    log_probs, _ = ensemble.step(ensemble.start(batch), ids)
    first, second = (member.step(member.start(batch), ids)[0].exp() for member in members)
    torch.testing.assert_close(log_probs.exp(), (first + second) / 2)


def test_the_maximum_length_is_the_shortest_of_all_members() -> None:
    model, batch = tiny_model(positions="learned", max_len=8), collate_sources(SOURCES)
    limits = Ensemble([model, tiny_model()]).max_target_len(batch)
    assert limits is not None and limits.tolist() == [7] * len(SOURCES)
    assert Ensemble([tiny_model()]).max_target_len(batch) is None
