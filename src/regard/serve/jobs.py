"""Jobs for the queue: translate texts."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import ClassVar, Generic

import torch
from torch import Tensor

from regard.data.glossary import Glossary
from regard.pipelines.translation import Translation
from regard.pipelines.translator import Translator
from regard.search.decode import DecodeConfig
from regard.search.protocols import SearchStep
from regard.search.search_tree import SearchTree
from regard.serve.batch_queue import PAUSED, Pause, QueuedJob, QueueName, R
from regard.serve.registry import ServedModel
from regard.serve.translation_progress import TranslationProgress, share_sentences
from regard.text.sentences import SplitText

_CANCEL_INTERVAL = 4  # steps after which a search may notice that it is cancelled

Report = Callable[[str], None]
"""Called with new text from the worker's thread"""


@dataclass(frozen=True)
class SentencesJob(ABC, Generic[R]):
    """Translates texts, sentence by sentence. Jobs with the same model and settings run in one batch.

    A job with many sentences runs in portions, so that others do not wait for all of it.
    """

    queue: ClassVar[QueueName] = "translate"
    served: ServedModel[Translator]
    texts: tuple[str, ...]
    config: DecodeConfig
    prefix: str = ""
    attention: bool = False
    as_written: bool = False
    report: Report | None = field(default=None, compare=False)
    """Called with the best hypothesis for the first text after every step"""
    to: str | None = None
    """The target language, for a model with several; jobs of several languages run in one batch too"""
    glossary: Glossary | None = None

    @property
    def batch_key(self) -> Hashable:
        return self.served.name, self.config, self.attention, self.as_written, bool(self.prefix), self.glossary

    @property
    def size(self) -> int:
        return sum(map(len, self.texts))

    @cached_property
    def progress(self) -> TranslationProgress:
        texts = [self.served.pipeline.directions.without_tag(text) for text in self.texts]
        return TranslationProgress(texts, [self._split(text) for text in self.texts], self.report is not None)

    def _split(self, text: str) -> SplitText:
        """Return the sentences of a text; with a prefix, the text as one."""
        translator = self.served.pipeline
        if self.prefix:
            tag, rest = translator.directions.read_tag(text, self.to)
            return SplitText.whole(rest, tag)
        return translator.split(text, self.to)

    @abstractmethod
    def finish(self, progress: TranslationProgress) -> R:
        """Return the result of the job when all sentences are translated."""

    def run(self, batch: Sequence[QueuedJob]) -> list[R | Pause | None]:
        jobs: list[SentencesJob[R]] = [queued.job for queued in batch]
        portions = share_sentences([job.progress for job in jobs])
        translator, begin = self.served.pipeline, time.perf_counter()
        observer = BatchObserver(batch, portions, translator, self.config.beam)
        prefixes = [job.prefix for job, portion in zip(jobs, portions, strict=True) for _ in portion]
        sentences = [job.progress.sentences[n] for job, ns in zip(jobs, portions, strict=True) for n in ns]
        tags = [job.progress.tags[n] for job, ns in zip(jobs, portions, strict=True) for n in ns]
        translations = iter(
            translator.translate(
                sentences,
                to=tags,
                attention=self.attention,
                prefixes=prefixes if self.prefix else None,
                observer=observer,
                as_written=self.as_written,
                glossary=self.glossary,
                **self.config.model_dump(),
            )
        )
        for job, numbers in zip(jobs, portions, strict=True):
            job.progress.add(numbers, islice(translations, len(numbers)), translator.aligner)
            job.progress.adapt(time.perf_counter() - begin)
        return [None if i in observer.stopped else job._outcome() for i, job in enumerate(jobs)]

    def _outcome(self) -> R | Pause:
        return PAUSED if self.progress.n_remaining else self.finish(self.progress)


class TextsJob(SentencesJob[list[Translation]]):
    """Translates any number of texts."""

    def finish(self, progress: TranslationProgress) -> list[Translation]:
        return progress.results()


class TranslationJob(SentencesJob[Translation]):
    """Translates one text."""

    def __init__(
        self,
        served: ServedModel[Translator],
        text: str,
        config: DecodeConfig,
        prefix: str = "",
        attention: bool = False,
        as_written: bool = False,
        report: Report | None = None,
        to: str | None = None,
        glossary: Glossary | None = None,
    ) -> None:
        super().__init__(served, (text,), config, prefix, attention, as_written, report, to, glossary)

    def finish(self, progress: TranslationProgress) -> Translation:
        [translation] = progress.results()
        return translation


class CancelObserver:
    """Stops the search for texts that are cancelled."""

    interval = _CANCEL_INTERVAL
    is_optional = True

    def __init__(self, batch: Sequence[QueuedJob], jobs: Sequence[int], stopped: set[int]) -> None:
        self.batch, self.jobs = batch, jobs
        """The jobs, and the number of the job of each sentence"""
        self.stopped = stopped
        """Numbers of the jobs that were cancelled"""

    def __call__(self, step: SearchStep) -> Tensor | None:
        jobs = [self.jobs[sentence] for sentence in step.sentences.tolist()]
        cancelled = {i for i in jobs if self.batch[i].is_cancelled()}
        self.stopped |= cancelled
        return torch.tensor([i in cancelled for i in jobs], device=step.ids.device) if cancelled else None


class BatchObserver:
    """Reports the best translation of each text so far, and stops the search for texts that are cancelled."""

    def __init__(
        self, batch: Sequence[QueuedJob], portions: Sequence[Sequence[int]], translator: Translator, beam: int
    ) -> None:
        """`portions`: for each job, the numbers of the sentences that are translated now."""
        self.batch = batch
        self.tokenizer = translator.tgt_tokenizer
        self.places = [(i, n) for i, numbers in enumerate(portions) for n in numbers]
        """The job of each sentence, and its number there"""
        self.stopped: set[int] = set()
        """Numbers of jobs"""
        self.again = CancelObserver(batch, [i for i, _ in self.places], self.stopped)
        """Of translations that lack terms of a glossary and are made again"""
        self.trees = {row: SearchTree(beam, alpha=0.0) for row, (i, _) in enumerate(self.places) if batch[i].job.report}
        self.interval = 1 if self.trees else _CANCEL_INTERVAL
        self.is_optional = not self.trees
        """Texts that nobody watches may be decoded by an engine that shows no steps; it finishes even cancelled ones"""

    def __call__(self, step: SearchStep) -> Tensor | None:
        sentences = step.sentences.tolist()
        for row, sentence in enumerate(sentences):
            if (tree := self.trees.get(sentence)) is not None:
                tree.add_step(step, row)
                if tree.best:
                    i, n = self.places[sentence]
                    self.batch[i].job.progress.outputs[n] = self.tokenizer.decode(tree.best)
        for i in sorted({self.places[sentence][0] for sentence in sentences}):
            job = self.batch[i].job
            if job.report and (text := job.progress.report()):
                job.report(text)
        return self.again(step)
