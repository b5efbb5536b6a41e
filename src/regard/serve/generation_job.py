"""A job for the queue: continue prompts with a language model."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from regard.pipelines.generator import Generator
from regard.search.sampling import TokenPenalties
from regard.serve.batch_queue import QueuedJob, QueueName
from regard.serve.choices import ChoiceList, TextChoice, choice_tokens
from regard.serve.registry import ServedModel

_MAX_SEED = 2**63


class Prompt(NamedTuple):
    """A text to continue, and its tokens."""

    text: str
    ids: tuple[int, ...]


@dataclass(frozen=True)
class GenerationOptions:
    """How prompts are continued."""

    max_tokens: int
    temperature: float
    top_p: float
    seed: int
    n: int = 1
    """Choices per prompt; number i is sampled with the seed `seed` + i"""
    best_of: int = 1
    """How many samples are drawn; the n with the highest log-probability per token are returned"""
    stop: tuple[str, ...] = ()
    """A text ends before any of these"""
    n_top: int | None = None
    """Score the tokens and so many of the most likely ones in their places; None: no scores"""
    penalties: TokenPenalties | None = None
    echo: bool = False
    """Whether the text begins with the prompt"""


@dataclass(frozen=True)
class IndexedPart:
    """A part of a choice; choices are numbered over all prompts."""

    index: int
    part: TextChoice


@dataclass(frozen=True, eq=False)
class GenerationJob:
    """Continues all prompts of a request, one after the other."""

    queue: ClassVar[QueueName] = "generate"
    served: ServedModel[Generator]
    prompts: tuple[Prompt, ...]
    options: GenerationOptions
    report: Callable[[IndexedPart], None] | None = None
    """Called with each part of a text that is certain, but not with the finish reason"""

    @property
    def batch_key(self) -> Hashable:
        return id(self)

    @property
    def size(self) -> int:
        return sum(len(prompt.ids) for prompt in self.prompts)

    def run(self, batch: Sequence[QueuedJob]) -> list[list[ChoiceList] | None]:
        [queued] = batch
        results = []
        for number, prompt in enumerate(self.prompts):
            samples = []
            for i in range(max(self.options.n, self.options.best_of)):
                sample = self._sample(queued, prompt, i, number * self.options.n + i)
                if sample is None:
                    return [None]
                samples.append(sample)
            results.append(self._best(prompt, samples))
        return [results]

    def _best(self, prompt: Prompt, samples: list[TextChoice]) -> ChoiceList:
        """Return the n best samples or, if all are wanted, all in order."""
        n_generated = sum(sample.n_tokens for sample in samples)
        if len(samples) > self.options.n:
            n_echoed = self._n_echoed(prompt)
            samples = sorted(samples, key=lambda sample: -sample.mean_log_prob(n_echoed))[: self.options.n]
        if self.options.n_top is None:
            samples = [replace(sample, tokens=()) for sample in samples]
        return ChoiceList(tuple(samples), len(prompt.ids), n_generated)

    def _sample(self, queued: QueuedJob, prompt: Prompt, i: int, index: int) -> TextChoice | None:
        """Return sample i of a prompt, and report it as choice `index` while it grows; None if it is cancelled."""
        choice, n_reported, n_echoed = TextChoice(), 0, self._n_echoed(prompt)
        for choice in self._growing(prompt, i):
            if queued.is_cancelled():
                return None
            choice = choice.end_before(self.options.stop, n_echoed)
            if choice.finish_reason == "stop":
                break
            if self.report and (n_certain := max(n_echoed, choice.n_certain(self.options.stop))) > n_reported:
                self.report(IndexedPart(index, choice.part(n_reported, n_certain)))
                n_reported = n_certain
        reached_limit = choice.n_tokens >= self.options.max_tokens
        choice = replace(choice, finish_reason=choice.finish_reason or ("length" if reached_limit else "stop"))
        if self.report:
            rest = tuple(token for token in choice.tokens if token.offset >= n_reported)
            self.report(IndexedPart(index, TextChoice(choice.text[n_reported:], rest)))
        return choice

    def _growing(self, prompt: Prompt, i: int) -> Iterator[TextChoice]:
        """Yield the text of sample i after each new piece, with the prompt if it is echoed."""
        options, generator = self.options, self.served.pipeline
        n_top = 0 if options.n_top is None and options.best_of > options.n else options.n_top
        ids, choice = list(prompt.ids), self._echo(prompt) if options.echo else TextChoice()
        yield choice
        sampling = {"temperature": options.temperature, "top_p": options.top_p}
        seed = (options.seed + i) % _MAX_SEED
        for piece in generator.stream_pieces(
            prompt.ids, options.max_tokens, n_top, options.penalties, **sampling, seed=seed
        ):
            offsets = [len(choice.text)] * len(piece.scores)
            tokens = tuple(choice_tokens(generator.tokenizer, ids, piece.scores, offsets))
            ids += [score.id for score in piece.scores]
            choice = TextChoice(choice.text + piece.text, (*choice.tokens, *tokens), piece.n_tokens)
            yield choice

    def _n_echoed(self, prompt: Prompt) -> int:
        """Count the characters of the prompt at the beginning of a choice."""
        return len(prompt.text) if self.options.echo else 0

    def _echo(self, prompt: Prompt) -> TextChoice:
        """Return the prompt as the beginning of a choice."""
        if self.options.n_top is None:
            return TextChoice(prompt.text)
        generator = self.served.pipeline
        scores = generator.score_tokens(prompt.ids, self.options.n_top)
        starts = [len(generator.tokenizer.decode(prompt.ids[:i])) for i in range(len(prompt.ids))]
        return TextChoice(prompt.text, tuple(choice_tokens(generator.tokenizer, (), scores, starts)))
