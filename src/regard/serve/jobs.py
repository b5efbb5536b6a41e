"""Jobs for the queue: translate a text, and continue a prompt."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from regard.pipelines.generator import Generator
from regard.pipelines.translation import Translation
from regard.pipelines.translator import Translator
from regard.search.decode import DecodeConfig
from regard.search.protocols import SearchStep
from regard.search.search_tree import SearchTree
from regard.serve.batch_queue import QueuedJob
from regard.serve.registry import ServedModel
from regard.text.sentences import SplitText

_CANCEL_INTERVAL = 4  # steps after which a search may notice that it is cancelled

Report = Callable[[str], None]
"""Called with new text from the worker's thread"""


@dataclass(frozen=True)
class TranslationJob:
    """Translates one text, sentence by sentence. Texts with the same model and settings are translated in one batch."""

    served: ServedModel[Translator]
    text: str
    config: DecodeConfig
    prefix: str = ""
    attention: bool = False
    as_written: bool = False
    report: Report | None = field(default=None, compare=False)
    """Called with the best hypothesis after every step"""

    @property
    def batch_key(self) -> Hashable:
        return self.served.name, self.config, self.attention, self.as_written, bool(self.prefix)

    @property
    def size(self) -> int:
        return len(self.text)

    def split(self) -> SplitText:
        """Return the sentences of the text; with a prefix or several hypotheses, the text as one."""
        if self.prefix or self.config.n_best > 1:
            return SplitText.whole(self.text)
        return self.served.pipeline.split(self.text)

    def run(self, batch: Sequence[QueuedJob]) -> list[Translation | None]:
        jobs: list[TranslationJob] = [queued.job for queued in batch]
        splits = [job.split() for job in jobs]
        observer = BatchObserver(batch, splits, self.served.pipeline, self.config.beam)
        prefixes = [job.prefix for job in jobs] if self.prefix else None  # then each text is one sentence
        translations = iter(
            self.served.pipeline.translate(
                [sentence for split in splits for sentence in split.sentences],
                attention=self.attention,
                prefixes=prefixes,
                observer=observer,
                as_written=self.as_written,
                **self.config.model_dump(),
            )
        )
        merged = [
            Translation.merge(job.text, split, list(islice(translations, len(split.sentences))))
            for job, split in zip(jobs, splits, strict=True)
        ]
        return [None if i in observer.stopped else translation for i, translation in enumerate(merged)]


class BatchObserver:
    """Reports the best translation of each text so far, and stops the search for texts that are cancelled."""

    def __init__(
        self, batch: Sequence[QueuedJob], splits: Sequence[SplitText], translator: Translator, beam: int
    ) -> None:
        self.batch = batch
        self.splits = splits
        self.tokenizer = translator.tgt_tokenizer
        self.text_of = [i for i, split in enumerate(splits) for _ in split.sentences]
        """The number of each sentence's text"""
        self.stopped: set[int] = set()
        """Numbers of texts"""
        reported = [n for n, i in enumerate(self.text_of) if batch[i].job.report]
        self.trees = {n: SearchTree(beam, alpha=0.0) for n in reported}
        self.outputs = dict.fromkeys(reported, "")
        self.interval = 1 if self.trees else _CANCEL_INTERVAL
        self.is_optional = not self.trees
        """Texts that nobody watches may be decoded by an engine that shows no steps; it finishes even cancelled ones"""

    def __call__(self, step: SearchStep) -> Tensor | None:
        sentences = step.sentences.tolist()
        for row, n in enumerate(sentences):
            if (tree := self.trees.get(n)) is not None:
                tree.add_step(step, row)
                self.outputs[n] = self.tokenizer.decode(tree.best) if tree.best else self.outputs[n]
        texts = [self.text_of[n] for n in sentences]
        for i in sorted({i for i, n in zip(texts, sentences, strict=True) if n in self.trees}):
            self._report(i)
        cancelled = {i for i in texts if self.batch[i].is_cancelled()}
        self.stopped |= cancelled
        return torch.tensor([i in cancelled for i in texts], device=step.ids.device) if cancelled else None

    def _report(self, i: int) -> None:
        """Report what there is of the translation of text i."""
        outputs = [self.outputs[n] for n, text in enumerate(self.text_of) if text == i]
        if any(outputs):
            self.batch[i].job.report(self.splits[i].join(outputs).strip())


class Continuation(NamedTuple):
    """The continuation of a prompt, and whether the model or the limit of tokens ended it."""

    text: str
    finish_reason: Literal["stop", "length"]


@dataclass(frozen=True, eq=False)
class GenerationJob:
    """Continues a prompt with a language model, one prompt at a time."""

    served: ServedModel[Generator]
    prompt: str
    max_new_tokens: int
    temperature: float
    top_p: float
    seed: int
    stop: tuple[str, ...] = ()
    """The text ends before any of these"""
    report: Report | None = None
    """Called with each new piece of the text"""

    @property
    def batch_key(self) -> Hashable:
        return id(self)

    @property
    def size(self) -> int:
        return len(self.prompt)

    def run(self, batch: Sequence[QueuedJob]) -> list[Continuation | None]:
        [queued] = batch
        text, n_reported, n_tokens = "", 0, 0
        sampling = {"temperature": self.temperature, "top_p": self.top_p, "seed": self.seed}
        for piece in self.served.pipeline.stream_pieces(self.prompt, self.max_new_tokens, **sampling):
            if queued.is_cancelled():
                return [None]
            text, n_tokens = text + piece.text, piece.n_tokens
            if (end := min((at for stop in self.stop if (at := text.find(stop)) >= 0), default=-1)) >= 0:
                return [Continuation(text[:end], "stop")]
            if self.report and (n_certain := len(text) - self._n_uncertain(text)) > n_reported:
                self.report(text[n_reported:n_certain])
                n_reported = n_certain
        return [Continuation(text, "length" if n_tokens >= self.max_new_tokens else "stop")]

    def _n_uncertain(self, text: str) -> int:
        """Count the characters at the end that may be the beginning of a stop sequence."""
        lengths = (
            n for stop in self.stop for n in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:n])
        )
        return max(lengths, default=0)
