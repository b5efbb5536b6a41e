"""The search loop: sentences wait, are decoded in slots, and leave when they are done."""

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batch import Batch
from regard.nn.constants import numbers
from regard.search.capture import StepCapture
from regard.search.constraints import Constraints
from regard.search.nested import take_sentences
from regard.search.protocols import (
    FixedState,
    Hypothesis,
    LogitStepper,
    S,
    SearchStep,
    StepObserver,
    Stepper,
    observing_interval,
)
from regard.search.required_terms import RequiredTerms
from regard.search.slots import Slots

_CPU_ROOM = 16  # positions are added in this number, so that attention reads few entries in vain
_GPU_ROOM = 64  # and doubled on a GPU, where each number of positions is captured separately
_REFILL = 8  # free slots are filled or removed when one in so many is free
_GPU_STEPS = 4  # steps between two looks at what is done, for which the host waits for the GPU


SlotNumbers = NDArray[np.int64]


class SearchRule(Protocol):
    """How hypotheses are extended: beam search, greedy search or sampling."""

    @property
    def width(self) -> int:
        """Hypotheses per sentence"""
        ...

    def begin(self, slots: Slots[S]) -> Slots[S]: ...
    def advance(
        self, slots: Slots[S], logits: Tensor, log_sums: Tensor, observed: bool
    ) -> tuple[Slots[S], SearchStep | None]: ...
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
    required: RequiredTerms | None = None
    """Terms that the outputs must contain"""

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
    capture: StepCapture | None = None
    """Captured steps, if there are any"""

    @torch.inference_mode()
    def run(self) -> list[list[Hypothesis]]:
        """Return the n_best hypotheses of each sentence, best first; if the observer stops one, those finished."""
        n = len(self.sentences.src)
        results: list[list[Hypothesis]] = [[] for _ in range(n)]
        self._waiting = deque(range(n))
        self._limits = self.sentences.limits.cpu().numpy()
        self._n_done = 0
        """Steps so far"""
        slots = self._start()
        while (self._numbers >= 0).any():
            slots = self._advance(self._with_room(slots))
            ready = np.flatnonzero(slots.done.cpu().numpy() & (self._numbers >= 0))
            for number, hypotheses in zip(self._numbers[ready].tolist(), self._collect(slots, ready), strict=True):
                results[number] = hypotheses
            self._numbers[ready] = -1
            slots = self._refill(slots)
        return results

    @property
    def step_tokens(self) -> int:
        """Most tokens that a step adds to a hypothesis"""
        return 1

    def step(self, slots: Slots[S]) -> tuple[Slots[S], SearchStep | None]:
        """Let the model read the last token of every hypothesis, and extend the hypotheses."""
        ids, observed = slots.last.flatten(), self._is_observed
        if isinstance(self.model, LogitStepper):
            (logits, log_sums), state = self.model.step_logits(slots.state, ids)
            return self.rule.advance(replace(slots, state=state), logits, log_sums, observed)
        log_probs, state = self.model.step(slots.state, ids)
        return self.rule.advance(replace(slots, state=state), log_probs, log_probs.new_zeros(1, 1), observed)

    def begin(self, sentences: Sentences, room: int) -> Slots[S]:
        """Let the model read the sources, and return slots with empty hypotheses."""
        n, k = sentences.seeds.shape
        empty = torch.empty(n, 0, dtype=torch.int64, device=sentences.src.device)
        slots = numbers(n, sentences.src.device)
        state = self.model.start(Batch(sentences.src, empty, empty)).select(slots.repeat_interleave(k), slots)
        begun = Slots.start(state, sentences.constraints, sentences.limits, sentences.seeds, room)
        begun = replace(begun, required=sentences.required)
        return replace(self.rule.begin(begun), done=sentences.done)

    def _start(self) -> Slots[S]:
        """Fill all slots with the first sentences that wait."""
        numbers = self._next(self.n_slots)
        self._numbers = np.asarray(numbers + [-1] * (self._rounded(len(numbers)) - len(numbers)))
        """The sentence in each slot; −1: none, or its hypotheses have been collected"""
        self._lengths = np.ones_like(self._numbers)
        """Tokens in each slot, as the host counts them"""
        sentences, room = self.sentences.select(self._numbers.tolist()), self._room_for(1)
        if self.capture is None:
            return self.begin(sentences, room)
        return self.capture.start(lambda each: self.begin(each, room), self.step, (self._key, room), sentences)

    def _next(self, n: int) -> list[int]:
        return [self._waiting.popleft() for _ in range(min(n, len(self._waiting)))]

    def _collect(self, slots: Slots[S], ready: SlotNumbers) -> list[list[Hypothesis]]:
        if not len(ready):
            return []
        return self.rule.hypotheses(slots, torch.from_numpy(ready).to(slots.done.device))

    def _with_room(self, slots: Slots[S]) -> Slots[S]:
        room = self._room_for(int(self._lengths[self._numbers >= 0].max()))
        return slots if room == slots.room else slots.with_room(room)

    def _room_for(self, length: int) -> int:
        """Return the positions that the next steps need after `length` tokens, rounded up."""
        n = length + self._n_steps * self.step_tokens - 1
        if not self._on_gpu:
            return -(-n // _CPU_ROOM) * _CPU_ROOM
        return int(_GPU_ROOM << (-(-n // _GPU_ROOM) - 1).bit_length())

    def _rounded(self, n_sentences: int) -> int:
        """Return the number of slots for so many sentences; on a GPU each number is captured separately."""
        if not self._on_gpu:
            return n_sentences
        power = 1 << (n_sentences - 1).bit_length()
        return power * 3 // 4 if power >= 4 and n_sentences <= power * 3 // 4 else power

    @property
    def _n_steps(self) -> int:
        """Steps between two looks at what is done; an observer sees every step, unless it needs fewer."""
        if not self._on_gpu:
            return 1
        return _GPU_STEPS if self.observer is None else min(_GPU_STEPS, observing_interval(self.observer))

    def _advance(self, slots: Slots[S]) -> Slots[S]:
        n_steps = min(self._n_steps, self._most_remaining())
        for _ in range(n_steps):
            slots, step = self._run(slots)
        self._count_tokens(slots, n_steps)
        self._n_done += n_steps
        if self.observer is None or step is None:
            return slots
        return self._observe(slots, step, self.observer)

    def _count_tokens(self, slots: Slots[S], n_steps: int) -> None:
        self._lengths += n_steps

    def _run(self, slots: Slots[S]) -> tuple[Slots[S], SearchStep | None]:
        return self.step(slots) if self.capture is None else self.capture.step(self.step, self._key, slots)

    @property
    def _on_gpu(self) -> bool:
        return self.capture is not None and self.capture.on_gpu

    @property
    def _is_observed(self) -> bool:
        """Whether the observer sees the next step; a captured step is always described."""
        if self.observer is None or self._on_gpu:
            return self.observer is not None
        return (self._n_done + 1) % observing_interval(self.observer) == 0

    def _most_remaining(self) -> int:
        """Return the number of steps after which every sentence has reached its maximum length."""
        active = self._numbers >= 0
        return max(1, int((self._limits[self._numbers[active]] + 2 - self._lengths[active]).max()))

    @property
    def _key(self) -> Hashable:
        """Everything that a captured step depends on, besides the shapes of the slots"""
        constraints = self.sentences.constraints.key
        required = self.sentences.required
        terms = None if required is None else (required.ids.shape[1:], required.counts.shape[1])
        return self.rule, constraints, self._is_observed, self.sentences.src.shape[1:], terms

    def _observe(self, slots: Slots[S], step: SearchStep, observer: StepObserver) -> Slots[S]:
        """Show the step to the observer; the sentences that it stops are done."""
        device = slots.done.device
        active = torch.from_numpy(np.flatnonzero(self._numbers >= 0)).to(device)
        numbers = torch.from_numpy(self._numbers.copy()).to(device)[active]
        stopped = observer(SearchStep(numbers, *(part[active] for part in step.candidates)))
        if stopped is not None:
            slots.done[active] = slots.done[active] | stopped.to(device)
        return slots

    def _refill(self, slots: Slots[S]) -> Slots[S]:
        """Put waiting sentences into free slots; if none wait, remove free slots."""
        free = np.flatnonzero(self._numbers < 0)
        if self._waiting and len(free) == len(self._numbers):
            return self._start()
        if self._waiting and isinstance(slots.state, FixedState):
            return self._put(slots, free) if _REFILL * len(free) >= len(self._numbers) else slots
        return self._shrink(slots)

    def _put(self, slots: Slots[S], free: SlotNumbers) -> Slots[S]:
        numbers = self._next(len(free))
        places = free[: len(numbers)]
        self._numbers[places], self._lengths[places] = numbers, 1
        new = self.begin(self.sentences.select(numbers), slots.room)
        return slots.put(torch.from_numpy(places).to(slots.done.device), new)

    def _shrink(self, slots: Slots[S]) -> Slots[S]:
        is_free = self._numbers < 0
        n_slots, n_active = len(is_free), int((~is_free).sum())
        n = self._rounded(n_active) if n_active else 0
        pays = _REFILL * (n_slots - n) >= n_slots if not self._on_gpu else 4 * n <= n_slots
        if not n or n == n_slots or not pays:
            return slots
        kept = np.sort(np.argsort(is_free, kind="stable")[:n])  # all that are not free, and some that are
        self._numbers, self._lengths = self._numbers[kept], self._lengths[kept]
        return slots.select(torch.from_numpy(kept).to(slots.done.device))
