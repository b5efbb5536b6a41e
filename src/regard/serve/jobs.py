"""What the worker does: translate, write, and look inside."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.pipelines.generator import Generator
from regard.pipelines.translator import Translation, Translator
from regard.search.protocols import SearchStep
from regard.search.search_tree import SearchTree
from regard.serve.limits import Limits
from regard.serve.queue import Job
from regard.serve.registry import Served

Say = Callable[[Any], None]


@dataclass(frozen=True)
class TranslateWork:
    """One text; others with the same options are translated in the same batch."""

    served: Served
    text: str
    options: tuple[tuple[str, Any], ...]
    limits: Limits
    prefix: str = ""
    attention: bool = False
    say: Say | None = field(default=None, compare=False)
    """Told the text as it grows, from the worker's thread"""

    @property
    def kind(self) -> Any:
        return self.served.name, self.options, self.attention, bool(self.prefix)

    @property
    def size(self) -> int:
        return len(self.text)

    def run(self, jobs: Sequence[Job]) -> list[Translation | None]:
        translator = self.served.pipeline
        assert isinstance(translator, Translator)
        works: list[TranslateWork] = [job.work for job in jobs]
        watch = Following(jobs, translator, self.limits)
        found = translator.translate(
            [work.text for work in works],
            attention=self.attention,
            prefixes=[work.prefix for work in works] if self.prefix else None,
            observer=watch,
            **dict(self.options),
        )
        return [None if i in watch.late else translation for i, translation in enumerate(found)]


class Following:
    """Follows the best hypothesis of each sentence, and gives up those whose client has gone or whose time is up."""

    def __init__(self, jobs: Sequence[Job], translator: Translator, limits: Limits) -> None:
        self.jobs = jobs
        self.translator = translator
        self.limits = limits
        self.late: set[int] = set()
        beam = dict(jobs[0].work.options).get("beam", translator.decode_config.beam)
        self.trees = {i: SearchTree(beam, alpha=0.0) for i, job in enumerate(jobs) if job.work.say}

    def __call__(self, step: SearchStep) -> Tensor | None:
        numbers = step.sentences.tolist()
        for row, i in enumerate(numbers):
            if (tree := self.trees.get(i)) is not None:
                tree.add_step(step, row)
                if tree.best:
                    self.jobs[i].work.say(self.translator.tgt_tokenizer.decode(tree.best))
        late = [i for i in numbers if self.jobs[i].gone.is_set() or self.jobs[i].expired(self.limits)]
        self.late |= set(late)
        return torch.tensor([i in late for i in numbers], device=step.ids.device) if late else None


@dataclass(frozen=True)
class WriteWork:
    """A language model writes on; each text by itself."""

    served: Served
    prompt: str
    max_new_tokens: int
    sampling: tuple[tuple[str, Any], ...]
    limits: Limits
    stop: tuple[str, ...] = ()
    say: Say | None = field(default=None, compare=False)

    @property
    def kind(self) -> Any:
        return id(self)

    @property
    def size(self) -> int:
        return len(self.prompt)

    def run(self, jobs: Sequence[Job]) -> list[tuple[str, str] | None]:
        """(text, why it ended)"""
        writer, [job] = self.served.pipeline, jobs
        assert isinstance(writer, Generator)
        text, said, pieces = "", 0, 0
        for piece in writer.stream(self.prompt, self.max_new_tokens, **dict(self.sampling)):
            if job.gone.is_set() or job.expired(self.limits):
                return [None]
            text, pieces = text + piece, pieces + 1
            if (end := min((at for s in self.stop if (at := text.find(s)) >= 0), default=-1)) >= 0:
                return [(text[:end], "stop")]
            if self.say and (sure := len(text) - self._doubtful(text)) > said:
                self.say(text[said:sure])
                said = sure
        return [(text, "length" if pieces >= self.max_new_tokens else "stop")]

    def _doubtful(self, text: str) -> int:
        """Characters at the end that may be the beginning of what the text has to stop at"""
        ends = (n for s in self.stop for n in range(min(len(s) - 1, len(text)), 0, -1) if text.endswith(s[:n]))
        return max(ends, default=0)


@dataclass(frozen=True)
class Task:
    """Anything else that a model is asked for, by itself; the one thread of the worker keeps models to itself."""

    do: Callable[[Job], Any]
    """None: it was given up"""
    size: int = 0

    @property
    def kind(self) -> Any:
        return id(self)

    def run(self, jobs: Sequence[Job]) -> list[Any]:
        return [None if job.gone.is_set() else self.do(job) for job in jobs]
