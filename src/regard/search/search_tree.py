"""A search of one sentence as the tree that it grows: what went on, what ended, what was given up."""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.search.length_penalty import normalised
from regard.search.protocols import SearchStep
from regard.text.vocab import EOS

ROOT = "r"


@dataclass(frozen=True)
class Node:
    name: str
    parent: str
    ids: tuple[int, ...]
    """The whole hypothesis"""
    log_prob: float
    score: float
    """Length-normalised"""
    state: str
    """kept, ended or pruned"""


class SearchTree:
    """A Watcher that writes everything down."""

    def __init__(self, k: int, alpha: float) -> None:
        self.k = k
        self.alpha = alpha
        self.steps: list[tuple[Node, ...]] = []
        self._places = [Node(ROOT, "", (), 0.0, 0.0, "kept")]

    def __call__(self, seen: SearchStep) -> Tensor | None:
        self.grow(seen, row=0)
        return None

    def grow(self, seen: SearchStep, row: int) -> None:
        """One step of the sentence in that row"""
        t, nodes, grown = len(self.steps), list[Node](), dict[int, Node]()
        rows = (part[row].tolist() for part in (seen.log_probs, seen.parents, seen.ids, seen.places))
        for i, (log_prob, parent, token, place) in enumerate(zip(*rows, strict=True)):
            if log_prob == -torch.inf:
                continue
            above = self._places[parent]
            # Of the k best those that end are put aside; what ends behind them is not.
            state = "kept" if place >= 0 else "ended" if token == EOS and i < self.k else "pruned"
            score = normalised(log_prob, t + 1, self.alpha)
            node = Node(f"{t}.{i}", above.name, (*above.ids, token), log_prob, score, state)
            nodes.append(node)
            if place >= 0:
                grown[place] = node
        self.steps.append(tuple(nodes))
        self._places = [grown[place] for place in sorted(grown)]

    @property
    def best(self) -> tuple[int, ...]:
        """What the best of those that go on says; nothing once none does"""
        return self._places[0].ids if self._places else ()

    @property
    def ended(self) -> list[Node]:
        """Those that ended, the best first"""
        return sorted((n for step in self.steps for n in step if n.state == "ended"), key=lambda n: -n.score)
