"""Observers of a search: they see every step, change nothing, and can stop sentences. The search tree is one."""

import pytest
import torch
from torch import Tensor

from regard.data.batch import collate_sources
from regard.search.decode import DecodeConfig, decode
from regard.search.protocols import SearchStep
from regard.search.search_tree import SearchTree
from regard.text.vocab import EOS
from tests.conftest import tiny_model
from tests.search.cases import SOURCES, assert_same_hypotheses, searches
from tests.search.table_model import A, B, C, lecture_example


class RecordingObserver:
    """Rebuilds the hypotheses of every sentence from the steps, and stops sentence i after stop_after[i] steps."""

    def __init__(self, n_sentences: int, stop_after: dict[int, int] | None = None) -> None:
        self.unfinished: list[list[tuple[int, ...]]] = [[()] for _ in range(n_sentences)]
        self.finished: list[list[tuple[int, ...]]] = [[] for _ in range(n_sentences)]
        self.n_steps = [0] * n_sentences
        self.stop_after = stop_after or {}

    def __call__(self, step: SearchStep) -> Tensor | None:
        for row, sentence in enumerate(step.sentences.tolist()):
            self.n_steps[sentence] += 1
            kept: dict[int, tuple[int, ...]] = {}
            parts = (part[row].tolist() for part in (step.log_probs, step.parents, step.ids, step.slots))
            for log_prob, parent, token, slot in zip(*parts, strict=True):
                if log_prob == -torch.inf:
                    continue
                ids = (*self.unfinished[sentence][parent], token)
                if slot >= 0:
                    kept[slot] = ids
                elif token == EOS:
                    self.finished[sentence].append(ids[:-1])
            self.unfinished[sentence] = [kept[slot] for slot in sorted(kept)]
        stopped = [self.n_steps[s] >= self.stop_after.get(s, 10**9) for s in step.sentences.tolist()]
        return torch.tensor(stopped) if any(stopped) else None


@searches
def test_the_observed_steps_lead_to_the_result(config: DecodeConfig) -> None:
    model, batch, observer = tiny_model(), collate_sources(SOURCES), RecordingObserver(len(SOURCES))
    results = decode(model, batch, config, observer=observer)
    assert_same_hypotheses(results, decode(model, batch, config))
    for row, finished in zip(results, observer.finished, strict=True):
        assert {h.ids for h in row} <= set(finished)


@searches
def test_a_stopped_sentence_takes_no_further_step_and_does_not_affect_the_others(config: DecodeConfig) -> None:
    model, batch = tiny_model(), collate_sources(SOURCES)
    expected, observer = decode(model, batch, config), RecordingObserver(len(SOURCES), stop_after={2: 2, 0: 1})
    results = decode(model, batch, config, observer=observer)
    assert observer.n_steps[2] <= 2 and observer.n_steps[0] == 1 and max(observer.n_steps) > 2
    others = [1, 3, 4]
    assert_same_hypotheses([results[i] for i in others], [expected[i] for i in others])
    stop_all = RecordingObserver(len(SOURCES), stop_after=dict.fromkeys(range(len(SOURCES)), 1))
    decode(model, batch, config, observer=stop_all)
    assert stop_all.n_steps == [1] * len(SOURCES)


def test_the_tree_of_the_lecture_example() -> None:
    tree = SearchTree(k=2, alpha=0.0)
    config = DecodeConfig(beam=2, n_best=2, length_penalty=0.0, min_len=3)
    [hypotheses] = decode(lecture_example(), collate_sources([[6]]), config, observer=tree)
    first = {node.ids: (node.parent, node.state) for node in tree.steps[0]}
    assert first[(A,)] == ("r", "kept") and sorted(state for _, state in first.values()) == ["kept"] * 2 + ["pruned"]
    second = {node.ids: node.state for node in tree.steps[1]}
    assert second[(A, B)] == second[(A, C)] == "kept"
    assert [node.ids[:-1] for node in tree.ended[:2]] == [h.ids for h in hypotheses]
    assert [node.log_prob for node in tree.ended[:2]] == pytest.approx([h.log_prob for h in hypotheses])
    names = {node.name: node for step in tree.steps for node in step}
    for node in names.values():
        assert node.parent == "r" or names[node.parent].ids == node.ids[:-1]
    assert tree.ended[0].ids == (A, C, B, EOS)


@searches
def test_the_best_of_the_tree_is_the_best_unfinished_hypothesis(config: DecodeConfig) -> None:
    model, batch = tiny_model(), collate_sources(SOURCES[:1])
    tree, observer = SearchTree(config.beam, config.length_penalty), RecordingObserver(1)

    def both(step: SearchStep) -> None:
        tree(step)
        observer(step)
        assert tree.best == (observer.unfinished[0][0] if observer.unfinished[0] else ())

    [hypotheses] = decode(model, batch, config, observer=both)
    assert {h.ids for h in hypotheses} <= {node.ids[:-1] for node in tree.ended}
