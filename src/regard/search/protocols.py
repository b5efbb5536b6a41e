"""The interface between models and search: start, step, select. Search knows nothing else about a model."""

from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

from torch import Tensor

from regard.data.batch import Batch


class State(Protocol):
    """What a model remembers between steps: one row per hypothesis, and the source once per sentence."""

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> Self:
        """Return the state of the hypotheses `rows`, in that order; a row may be taken several times.

        `sentences` are the sentences that stay, in ascending order: `rows` then has the same number of hypotheses
        for each of them, in the same order. Without it, every row is one sentence.
        """
        ...


S = TypeVar("S", bound=State)


@runtime_checkable
class FixedState(Protocol):
    """A state that consists of tensors whose shapes can stay the same from step to step.

    Sentences can then be replaced while others are being decoded, and a step can be captured as a CUDA graph.
    """

    def with_room(self, n_tokens: int) -> "FixedState":
        """Return the state with room for so many tokens, more or fewer than before, in shapes that stay the same."""
        ...


class Stepper(Protocol[S]):
    """Anything that search can decode with: a model, an ensemble, a table of probabilities."""

    def max_target_len(self, batch: Batch) -> Tensor | None:
        """[B]: most tokens that each target can have; None: no limit"""
        ...

    def start(self, batch: Batch) -> S:
        """Return the state before the first token, one row per sentence."""
        ...

    def step(self, state: S, ids: Tensor) -> tuple[Tensor, S]:
        """Read one token per row, ids [R] → log-probabilities of the next token [R, V], and the state after"""
        ...


@runtime_checkable
class LogitStepper(Protocol):
    """A model that can leave it to the search to normalise its logits."""

    def step_logits(self, state: Any, ids: Tensor) -> tuple[tuple[Tensor, Tensor], Any]:
        """Like `Stepper.step`, but returns logits [R, V] and their log-sums [R, 1]; log p is the difference."""
        ...


@runtime_checkable
class Reader(Protocol):
    """A model that can read several tokens in one pass."""

    def read(self, state: Any, ids: Tensor) -> Any:
        """Read ids [R, n] and return the state after them."""
        ...


@dataclass(frozen=True)
class Hypothesis:
    """Ids without BOS and EOS; `score` is the log-probability divided by the length penalty."""

    ids: tuple[int, ...]
    score: float
    log_prob: float


@dataclass(frozen=True)
class SearchStep:
    """The candidates of one step: [N, c] continuations of each sentence that is still being decoded, best first."""

    sentences: Tensor
    """[N]: their numbers in the batch"""
    log_probs: Tensor
    """[N, c]: log-probability of the whole hypothesis; −∞: no candidate"""
    parents: Tensor
    """[N, c]: beam slot of the hypothesis that is continued"""
    ids: Tensor
    """[N, c]: the token that continues it"""
    slots: Tensor
    """[N, c]: beam slot from now on; −1: the hypothesis has ended or was pruned"""

    @property
    def candidates(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.log_probs, self.parents, self.ids, self.slots


class StepObserver(Protocol):
    """Called at every step of a search; can end the search of some sentences.

    An observer with an attribute `interval` may be called less often, but at least once in so many steps. One whose
    attribute `is_optional` is true need not be called at all. If it has an attribute `again`, that is the observer of
    texts that are decoded again.
    """

    def __call__(self, step: SearchStep) -> Tensor | None:
        """Return [N] bool, True for sentences to stop searching; None: continue with all."""
        ...


@dataclass(frozen=True)
class RenumberedObserver:
    """Passes steps on to an observer that counts sentences differently."""

    observer: StepObserver
    numbers: Tensor
    """Number of each sentence, as the observer counts"""

    @property
    def interval(self) -> int:
        return observing_interval(self.observer)

    def __call__(self, step: SearchStep) -> Tensor | None:
        return self.observer(replace(step, sentences=self.numbers.to(step.sentences.device)[step.sentences]))


@dataclass(frozen=True)
class StopRecorder:
    """Passes steps on to an observer, and remembers which sentences it has stopped."""

    observer: StepObserver
    stopped: set[int] = field(default_factory=set)

    @property
    def interval(self) -> int:
        return observing_interval(self.observer)

    @property
    def is_optional(self) -> bool:
        return is_optional(self.observer)

    @property
    def again(self) -> StepObserver | None:
        return getattr(self.observer, "again", None)

    def __call__(self, step: SearchStep) -> Tensor | None:
        stop = self.observer(step)
        if stop is not None:
            self.stopped.update(step.sentences[stop.to(step.sentences.device)].tolist())
        return stop


def observing_interval(observer: StepObserver) -> int:
    """Return the number of steps after which an observer must be called."""
    return getattr(observer, "interval", 1)


def is_optional(observer: StepObserver) -> bool:
    """Return whether a search may leave out an observer."""
    return getattr(observer, "is_optional", False)
