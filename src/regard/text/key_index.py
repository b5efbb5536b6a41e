"""Numbers for distinct 64-bit keys, found for whole arrays of keys at once."""

from array import array

import numpy as np
from numpy.typing import NDArray

_START = 12  # log₂ of the first number of slots
_EMPTY = -1
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: spreads keys evenly over the slots

Keys = NDArray[np.uint64]


class KeyIndex:
    """A hash table of arrays (open addressing): distinct keys are numbered 0, 1, 2, … in the order of their arrival."""

    def __init__(self) -> None:
        self._keys = array("Q")
        self._slots = np.full(1 << _START, _EMPTY, dtype=np.int32)

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, keys: Keys) -> NDArray[np.int64]:
        """Return the number of each key, −1 if it is not known."""
        if not len(self):
            return np.full(len(keys), _EMPTY)
        known, slots = np.asarray(self._keys), self._first_slots(keys)
        numbers = self._slots[slots].astype(np.int64)
        other = np.flatnonzero((numbers != _EMPTY) & (known[numbers] != keys))
        while len(other):  # another key has the slot: look into the next one
            slots[other] = self._next(slots[other])
            found = self._slots[slots[other]]
            numbers[other] = found
            other = other[(found != _EMPTY) & (known[found] != keys[other])]
        return numbers

    def add(self, keys: Keys) -> None:
        """Number more keys: distinct ones that are not known yet."""
        first = len(self)
        self._keys.frombytes(keys.tobytes())
        if 4 * len(self) > len(self._slots):  # few keys share a slot
            self._slots = np.full(1 << (4 * len(self)).bit_length(), _EMPTY, dtype=np.int32)
            first = 0
        waiting = np.arange(first, len(self), dtype=np.int32)
        slots = self._first_slots(np.asarray(self._keys)[first:])
        while len(waiting):
            free = self._slots[slots] == _EMPTY
            self._slots[slots[free]] = waiting[free]  # of several keys for one slot the last gets it
            lost = self._slots[slots] != waiting
            waiting, slots = waiting[lost], self._next(slots[lost])

    def _first_slots(self, keys: Keys) -> NDArray[np.int64]:
        bits = len(self._slots).bit_length() - 1
        return ((keys * _SPREAD) >> np.uint64(64 - bits)).astype(np.int64)

    def _next(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        return (slots + 1) & (len(self._slots) - 1)


def random_bits(numbers: NDArray[np.int64] | Keys) -> Keys:
    """Return 64 bits for each number that look random (splitmix64)."""
    bits = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
