"""The search loop: sentences wait, are decoded in slots, and leave when they are done."""

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.nn.constants import numbers
from regard.search.constraints import Constraints
from regard.search.graphs import StepGraphs
from regard.search.nested import take_sentences
from regard.search.protocols import FixedState, Hypothesis, S, SearchStep, StepObserver, Stepper
from regard.search.slots import Slots

_CPU_ROOM = 16  # positions are added in this number, so that attention reads few entries in vain
_GPU_ROOM = 64  # and doubled on a GPU, where each number of positions is captured separately
_REFILL = 8  # free slots are filled or removed when one in so many is free
_GPU_STEPS = 4  # steps between two looks at what is done, for which the host waits for the GPU


class SearchRule(Protocol):
    """How hypotheses are extended: beam search, greedy search or sampling."""

    @property
    def width(self) -> int:
        """Hypotheses per sentence"""
        ...

    def begin(self, slots: Slots[S]) -> Slots[S]: ...
    def advance(self, slots: Slots[S], log_probs: Tensor, observed: bool) -> tuple[Slots[S], SearchStep | None]: ...
    def hypotheses(self, slots: Slots[S], sentences: Tensor) -> list[list[Hypothesis]]: ...


@dataclass(frozen=True)
class Sentences:
    """Sentences to decode, with what each needs in a slot; all tensors."""

    src: Tensor
    """[B, S] ids, or images"""
    constraints: Constraints
    """Of each hypothesis [B · k]"""
    limits: Tensor
    """[B]: maximum lengths"""
    seeds: Tensor
    """[B, k]: seeds of sampling"""
    done: Tensor
    """[B] bool: not a sentence, but fills a slot"""

    def select(self, numbers: Sequence[int]) -> "Sentences":
        """Return some of the sentences; −1 stands for one that is done."""
        n = len(self.src)
        if numbers == list(range(n)):
            return self
        chosen = torch.tensor(numbers, device=self.src.device)
        return replace(take_sentences(self, chosen.clamp(min=0), n), done=chosen < 0)


@dataclass
class Search(Generic[S]):
    """Decodes sentences in at most `n_slots` slots. Waiting sentences take the places of those that are done."""

    model: Stepper[S]
    sentences: Sentences
    rule: SearchRule
    n_slots: int
    observer: StepObserver | None = None
    graphs: StepGraphs | None = None
    """On a GPU: captured steps"""

    @torch.inference_mode()
    def run(self) -> list[list[Hypothesis]]:
        """Return the n_best hypotheses of each sentence, best first; if the observer stops one, those finished."""
        n = len(self.sentences.src)
        results: list[list[Hypothesis]] = [[] for _ in range(n)]
        self._waiting = deque(range(n))
        self._limits = self.sentences.limits.tolist()
        slots = self._start()
        while any(number >= 0 for number in self._numbers):
            slots = self._advance(self._with_room(slots))
            done = slots.done.tolist()
            ready = [i for i, number in enumerate(self._numbers) if done[i] and number >= 0]
            for i, hypotheses in zip(ready, self._collect(slots, ready), strict=True):
                results[self._numbers[i]], self._numbers[i] = hypotheses, -1
            slots = self._refill(slots)
        return results

    def step(self, slots: Slots[S]) -> tuple[Slots[S], SearchStep | None]:
        """Let the model read the last token of every hypothesis, and extend the hypotheses."""
        log_probs, state = self.model.step(slots.state, slots.last.flatten())
        return self.rule.advance(replace(slots, state=state), log_probs, self.observer is not None)

    def begin(self, sentences: Sentences, room: int) -> Slots[S]:
        """Let the model read the sources, and return slots with empty hypotheses."""
        n, k = sentences.seeds.shape
        empty = torch.empty(n, 0, dtype=torch.int64, device=sentences.src.device)
        slots = numbers(n, sentences.src.device)
        state = self.model.start(Batch(sentences.src, empty, empty)).select(slots.repeat_interleave(k), slots)
        begun = Slots.start(state, sentences.constraints, sentences.limits, sentences.seeds, room)
        return replace(self.rule.begin(begun), done=sentences.done)

    def _start(self) -> Slots[S]:
        """Fill all slots with the first sentences that wait."""
        numbers = self._next(self.n_slots)
        self._numbers = numbers + [-1] * (self._rounded(len(numbers)) - len(numbers))
        """The sentence in each slot; −1: none, or its hypotheses have been collected"""
        self._lengths = [1] * len(self._numbers)
        """Tokens in each slot, as the host counts them"""
        sentences, room = self.sentences.select(self._numbers), self._room_for(1)
        if self.graphs is None:
            return self.begin(sentences, room)
        return self.graphs.start(lambda each: self.begin(each, room), self.step, (self._key, room), sentences)

    def _next(self, n: int) -> list[int]:
        return [self._waiting.popleft() for _ in range(min(n, len(self._waiting)))]

    def _collect(self, slots: Slots[S], ready: list[int]) -> list[list[Hypothesis]]:
        if not ready:
            return []
        return self.rule.hypotheses(slots, torch.tensor(ready, device=slots.done.device))

    def _with_room(self, slots: Slots[S]) -> Slots[S]:
        longest = max(length for length, number in zip(self._lengths, self._numbers, strict=True) if number >= 0)
        room = self._room_for(longest)
        return slots if room == slots.room else slots.with_room(room)

    def _room_for(self, length: int) -> int:
        """Return the positions that the next steps need after `length` tokens, rounded up."""
        n = length + self._n_steps - 1
        if self.graphs is None:
            return -(-n // _CPU_ROOM) * _CPU_ROOM
        return int(_GPU_ROOM << (-(-n // _GPU_ROOM) - 1).bit_length())

    def _rounded(self, n_sentences: int) -> int:
        """Return the number of slots for so many sentences; on a GPU each number is captured separately."""
        if self.graphs is None:
            return n_sentences
        power = 1 << (n_sentences - 1).bit_length()
        return power * 3 // 4 if power >= 4 and n_sentences <= power * 3 // 4 else power

    @property
    def _n_steps(self) -> int:
        """Steps between two looks at what is done; an observer sees every step."""
        return _GPU_STEPS if self.graphs is not None and self.observer is None else 1

    def _advance(self, slots: Slots[S]) -> Slots[S]:
        n_steps = min(self._n_steps, self._most_remaining())
        for _ in range(n_steps):
            slots, step = self.step(slots) if self.graphs is None else self.graphs.step(self.step, self._key, slots)
        self._lengths = [length + n_steps for length in self._lengths]
        if self.observer is None or step is None:
            return slots
        return self._observe(slots, step, self.observer)

    def _most_remaining(self) -> int:
        """Return the number of steps after which every sentence has reached its maximum length."""
        active = [i for i, number in enumerate(self._numbers) if number >= 0]
        return max(1, max(self._limits[self._numbers[i]] + 2 - self._lengths[i] for i in active))

    @property
    def _key(self) -> Hashable:
        """Everything that a captured step depends on, besides the shapes of the slots"""
        return self.rule, self.sentences.constraints.key, self.observer is not None

    def _observe(self, slots: Slots[S], step: SearchStep, observer: StepObserver) -> Slots[S]:
        """Show the step to the observer; the sentences that it stops are done."""
        device = slots.done.device
        active = torch.tensor([i for i, number in enumerate(self._numbers) if number >= 0], device=device)
        numbers = torch.tensor(self._numbers, device=device)[active]
        stopped = observer(SearchStep(numbers, *(part[active] for part in step.candidates)))
        if stopped is not None:
            slots.done[active] = slots.done[active] | stopped.to(device)
        return slots

    def _refill(self, slots: Slots[S]) -> Slots[S]:
        """Put waiting sentences into free slots; if none wait, remove free slots."""
        free = [i for i, number in enumerate(self._numbers) if number < 0]
        if self._waiting and len(free) == len(self._numbers):
            return self._start()
        if self._waiting and isinstance(slots.state, FixedState):
            return self._put(slots, free) if _REFILL * len(free) >= len(self._numbers) else slots
        return self._shrink(slots)

    def _put(self, slots: Slots[S], free: list[int]) -> Slots[S]:
        numbers = self._next(len(free))
        places = free[: len(numbers)]
        for i, number in zip(places, numbers, strict=True):
            self._numbers[i], self._lengths[i] = number, 1
        new = self.begin(self.sentences.select(numbers), slots.room)
        return slots.put(torch.tensor(places, device=slots.done.device), new)

    def _shrink(self, slots: Slots[S]) -> Slots[S]:
        active = [i for i, number in enumerate(self._numbers) if number >= 0]
        n, n_slots = self._rounded(len(active)) if active else 0, len(self._numbers)
        pays = _REFILL * (n_slots - n) >= n_slots if self.graphs is None else 4 * n <= n_slots
        if not n or not pays:
            return slots
        kept = (active + [i for i in range(n_slots) if i not in set(active)])[:n]
        kept.sort()
        self._numbers, self._lengths = [self._numbers[i] for i in kept], [self._lengths[i] for i in kept]
        return slots.select(torch.tensor(kept, device=slots.done.device))
