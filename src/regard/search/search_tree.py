"""The search of one sentence recorded as a tree of kept, finished and pruned hypotheses."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from regard.search.length_penalty import normalise_score
from regard.search.protocols import SearchStep
from regard.text.vocab import EOS

ROOT = "r"
NodeState = Literal["kept", "ended", "pruned"]


@dataclass(frozen=True)
class Node:
    """A hypothesis, as one step of the search extended it."""

    name: str
    parent: str
    """Name of the hypothesis that it extends"""
    ids: tuple[int, ...]
    """All tokens of the hypothesis"""
    log_prob: float
    score: float
    """log_prob divided by the length penalty"""
    state: NodeState


class SearchTree:
    """A step observer that records every candidate."""

    def __init__(self, k: int, alpha: float) -> None:
        self.k = k
        self.alpha = alpha
        self.steps: list[tuple[Node, ...]] = []
        self._beam = {slot: Node(ROOT, "", (), 0.0, 0.0, "kept") for slot in range(k)}
        """The unfinished hypotheses by their slots in the beam"""

    def __call__(self, step: SearchStep) -> Tensor | None:
        self.add_step(step, row=0)
        return None

    def add_step(self, step: SearchStep, row: int) -> None:
        """Record a step of the sentence in that row."""
        t, nodes, kept = len(self.steps), list[Node](), dict[int, Node]()
        rows = (part[row].tolist() for part in (step.log_probs, step.parents, step.ids, step.slots))
        for i, (log_prob, parent, token, slot) in enumerate(zip(*rows, strict=True)):
            if log_prob == -torch.inf:
                continue
            parent_node = self._beam[parent]
            # A candidate that ends is finished only if it is among the k best.
            state: NodeState = "kept" if slot >= 0 else "ended" if token == EOS and i < self.k else "pruned"
            score = normalise_score(log_prob, t + 1, self.alpha)
            node = Node(f"{t}.{i}", parent_node.name, (*parent_node.ids, token), log_prob, score, state)
            nodes.append(node)
            if slot >= 0:
                kept[slot] = node
        self.steps.append(tuple(nodes))
        self._beam = kept

    @property
    def best(self) -> tuple[int, ...]:
        """Tokens of the best unfinished hypothesis; empty when there is none"""
        return self._beam[min(self._beam)].ids if self._beam else ()

    @property
    def ended(self) -> list[Node]:
        """Finished hypotheses, best first"""
        return sorted((n for step in self.steps for n in step if n.state == "ended"), key=lambda n: -n.score)
