"""Who watches a search sees all of it, changes nothing, and may end it."""

import pytest
import torch
from torch import Tensor

from regard.data.batch import collate_sources
from regard.search.decode import DecodeConfig, decode
from regard.search.protocols import SearchStep
from regard.text.vocab import EOS
from tests.conftest import tiny_model
from tests.search.test_search import CONFIGS, SOURCES, assert_same


class Notes:
    """The tree of a search: what each place of each sentence says, and what has ended"""

    def __init__(self, n: int, give_up: dict[int, int] | None = None) -> None:
        self.alive: list[list[tuple[int, ...]]] = [[()] for _ in range(n)]
        self.ended: list[list[tuple[int, ...]]] = [[] for _ in range(n)]
        self.steps = [0] * n
        self.give_up = give_up or {}

    def __call__(self, seen: SearchStep) -> Tensor | None:
        for row, sentence in enumerate(seen.sentences.tolist()):
            self.steps[sentence] += 1
            grown: dict[int, tuple[int, ...]] = {}
            columns = zip(
                *(part[row].tolist() for part in (seen.log_probs, seen.parents, seen.ids, seen.slots)), strict=True
            )
            for log_prob, parent, token, place in columns:
                if log_prob == -torch.inf:
                    continue
                text = (*self.alive[sentence][parent], token)
                if place >= 0:
                    grown[place] = text
                elif token == EOS:
                    self.ended[sentence].append(text[:-1])
            self.alive[sentence] = [grown[place] for place in sorted(grown)]
        tired = [self.steps[s] >= self.give_up.get(s, 10**9) for s in seen.sentences.tolist()]
        return torch.tensor(tired) if any(tired) else None


@pytest.mark.parametrize("config", CONFIGS[:3])
def test_the_steps_lead_to_the_result(config: DecodeConfig) -> None:
    model, batch, notes = tiny_model(), collate_sources(SOURCES), Notes(len(SOURCES))
    found = decode(model, batch, config, observer=notes)
    assert_same(found, decode(model, batch, config))
    for row, ended in zip(found, notes.ended, strict=True):
        assert {h.ids for h in row} <= set(ended)


@pytest.mark.parametrize("config", CONFIGS[:3])
def test_what_is_given_up_costs_no_further_step_and_the_others_do_not_notice(config: DecodeConfig) -> None:
    model, batch = tiny_model(), collate_sources(SOURCES)
    whole, notes = decode(model, batch, config), Notes(len(SOURCES), give_up={2: 2, 0: 1})
    found = decode(model, batch, config, observer=notes)
    assert notes.steps[2] <= 2 and notes.steps[0] == 1 and max(notes.steps) > 2
    others = [1, 3, 4]
    assert_same([found[i] for i in others], [whole[i] for i in others])
    everyone = Notes(len(SOURCES), give_up=dict.fromkeys(range(len(SOURCES)), 1))
    decode(model, batch, config, observer=everyone)
    assert everyone.steps == [1] * len(SOURCES)
