"""Random sequences of ids, each drawn from its end to its beginning."""

from array import array

import numpy as np
from numpy.typing import NDArray

from regard.text.ragged import Ragged

END = 0
"""The node at which a sequence is complete"""


class Lattice:
    """Nodes 1, 2, … with choices. A choice has a probability, emits an id and leads to a node, until END is reached."""

    def __init__(self) -> None:
        self._first = array("i", [0, 0])  # the choices of node n are first[n] … first[n + 1] − 1
        self._ids = array("i")
        self._nodes = array("i")
        self._cumulative = array("d")

    @property
    def size(self) -> int:
        """Number of choices"""
        return len(self._ids)

    @property
    def last(self) -> int:
        """The last node"""
        return len(self._first) - 2

    def add(
        self,
        counts: NDArray[np.int64],
        ids: NDArray[np.int64],
        nodes: NDArray[np.int64],
        cumulative: NDArray[np.float64],
    ) -> None:
        """Add nodes with `counts` choices each.

        The other arguments have one entry per choice: its id, the node that it leads to, and the probability of the
        node's choices up to and including it.
        """
        self._first.extend((self.size + np.cumsum(counts)).tolist())
        self._ids.frombytes(ids.astype(np.int32).tobytes())
        self._nodes.frombytes(nodes.astype(np.int32).tobytes())
        self._cumulative.frombytes(cumulative.tobytes())

    def walk(self, nodes: NDArray[np.int64], generator: np.random.Generator) -> Ragged:
        """Draw a sequence for each node."""
        ids, before = np.asarray(self._ids), np.asarray(self._nodes)
        lengths = np.zeros(len(nodes), dtype=np.int64)
        rows, emitted = np.flatnonzero(nodes != END), []
        nodes = nodes[rows]
        while len(rows):
            choices = self._choose(nodes, generator.random(len(rows)))
            emitted.append((rows, ids[choices]))
            lengths[rows] += 1
            nodes = before[choices]
            inside = nodes != END
            rows, nodes = rows[inside], nodes[inside]
        ends, result = np.cumsum(lengths), np.empty(lengths.sum(), dtype=ids.dtype)
        for step, (rows, last) in enumerate(emitted, start=1):
            result[ends[rows] - step] = last
        return Ragged(result, lengths)

    def _choose(self, nodes: NDArray[np.int64], draws: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return a choice of each node: the first whose cumulative probability is above the draw (binary search)."""
        first, cumulative = np.asarray(self._first), np.asarray(self._cumulative)
        low, high = first[nodes], first[nodes + 1] - 1
        while (low < high).any():
            middle = (low + high) >> 1
            above = cumulative[middle] > draws
            low, high = np.where(above, low, np.minimum(middle + 1, high)), np.where(above, middle, high)
        return low
