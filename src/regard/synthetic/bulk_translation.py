"""Translate all lines of a file in numbered parts, each a file of its own, so that a killed job goes on where it was.

A part is written when it is complete and depends on its lines alone, so parts can be made in any order.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from regard.bundle import load_task_and_model
from regard.data.corpus_report import CorpusReport
from regard.data.data_file import BadLine, DataFile, decode_line
from regard.data.parallel_corpus import Corpus
from regard.data.reading_progress import ReadingProgress, no_progress
from regard.data.text_output import new_text_file
from regard.errors import UserError
from regard.paths import check_input_file
from regard.pipelines.engine import TORCH
from regard.pipelines.load import load_translator
from regard.pipelines.translation import Translation
from regard.pipelines.translator import Translator
from regard.search.decode import DecodeConfig
from regard.synthetic.job_folder import job_folder, model_fact
from regard.text.clean import clean

PART_LINES = 8_192
"""Lines per part: enough to fill a GPU, and on two CPU cores a few minutes of work at most are lost"""


@dataclass(frozen=True)
class ScoredText:
    """A translation and its mean log-probability per token."""

    text: str
    score: float


@dataclass(frozen=True)
class TranslatedLine:
    """A line of a file and its translations, best first; none if there is a problem."""

    source: str
    candidates: tuple[ScoredText, ...]
    problem: str = ""
    """Why the line has no translation"""

    def to_json(self) -> str:
        row = [self.source, [[each.text, each.score] for each in self.candidates], self.problem]
        return json.dumps(row, ensure_ascii=False)

    @classmethod
    def from_json(cls, line: bytes) -> "TranslatedLine":
        source, candidates, problem = json.loads(line)
        return cls(source, tuple(ScoredText(text, score) for text, score in candidates), problem)


@dataclass(frozen=True)
class BulkTranslation:
    """A file to translate, the model or the ensemble that translates it, and the folder of the parts."""

    models: tuple[Path, ...]
    text: Path
    folder: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of `Translator.translate`: beam, sampling, n_best …"""
    part_lines: int = PART_LINES
    engine: str = TORCH
    device: str | None = None

    def __post_init__(self) -> None:
        for model in self.models:
            check_translator(model)
        check_text(self.text)
        check_search(self.options)

    def run(self, progress: ReadingProgress = no_progress) -> "TranslatedFile":
        """Translate the parts that are missing; return all translations."""
        n_lines, digest = _count_lines(self.text)
        facts = {
            "model": [model_fact(model) for model in self.models],
            "text": digest,
            "options": dict(self.options),
            "engine": self.engine,
            "lines per part": self.part_lines,
        }
        done = TranslatedFile(self.folder, -(-n_lines // self.part_lines))
        with job_folder(self.folder, facts):
            self._translate_missing(done, n_lines, progress)
        return done

    def _translate_missing(self, done: "TranslatedFile", n_lines: int, progress: ReadingProgress) -> None:
        lines = _read_texts(self.text)
        for number in range(1, done.n_parts + 1):
            part = list(islice(lines, self.part_lines))
            if done.part(number).exists():
                continue
            with new_text_file(done.part(number)) as file:
                before = (number - 1) * self.part_lines
                for n, line in enumerate(self._translate(part), start=1):
                    progress("translated", before + n, n_lines)
                    file.write(f"{line.to_json()}\n".encode())

    def _translate(self, lines: Sequence[str | BadLine]) -> Iterator[TranslatedLine]:
        """Yield the translation of each line."""
        texts = [line for line in lines if isinstance(line, str)]
        options = {"split": True, **self.options}
        translations = self._translator.stream(texts, skip_long=True, **options)
        for line in lines:
            yield TranslatedLine("", (), line.problem) if isinstance(line, BadLine) else _translated(next(translations))

    @cached_property
    def _translator(self) -> Translator:
        """The model, loaded only if there is something to translate"""
        return load_translator(*self.models, device=self.device, engine=self.engine)


@dataclass(frozen=True)
class TranslatedFile:
    """The translations of a file, in numbered parts."""

    folder: Path
    n_parts: int

    def part(self, number: int) -> Path:
        """Return the path of a part, counted from 1."""
        return self.folder / f"part-{number:06d}.jsonl.gz"

    def __iter__(self) -> Iterator[TranslatedLine]:
        for number in range(1, self.n_parts + 1):
            path = self.part(number)
            try:
                yield from map(TranslatedLine.from_json, DataFile(path).lines())
            except ValueError:  # of which UserError is one
                raise UserError(f"{path}: damaged; delete it and give the command again") from None


def check_translator(folder: Path) -> None:
    """Refuse a folder that is not that of a translator."""
    task, _ = load_task_and_model(folder)
    if task != "translate":
        raise UserError(f"{folder}: not a translator, but a model for the task {task}; name a translator")


def _translated(translation: Translation) -> TranslatedLine:
    if translation.problem:
        return TranslatedLine(translation.source, (), "too long for the model")
    scores: dict[str, float] = {}  # of each text once
    for each in translation.hypotheses:
        scores.setdefault(clean(each.text), round(each.log_prob / max(1, each.n_tokens), 4))
    scored = tuple(ScoredText(text, score) for text, score in scores.items() if text)
    return TranslatedLine(translation.source, scored, "" if scored else "empty translation")


def check_text(path: Path) -> None:
    """Raise a UserError if a file has no line that can be translated."""
    check_input_file(path, read_once=False)
    reason = ""
    for line in _read_texts(path):
        if isinstance(line, str):
            return
        reason = reason or f" ({line.problem} in line 1)"
    raise UserError(f"{path}: has no line to translate{reason}; give a file with one sentence per line")


def check_search(options: Mapping[str, Any]) -> None:
    """Raise a UserError if options of the search are not valid."""
    known = {name: value for name, value in options.items() if name in DecodeConfig.model_fields}
    DecodeConfig.parse(known, where="")


def _read_texts(path: Path) -> Iterator[str | BadLine]:
    """Yield the clean lines of a file; a line that cannot be used is a BadLine."""
    report = CorpusReport()
    for number, raw in enumerate(DataFile(path).lines(), start=1):
        line = decode_line(raw, number, report, first=number == 1)
        text = line if isinstance(line, BadLine) else clean(line)
        if text == "":
            yield BadLine("empty line")
        elif isinstance(text, str) and len(text) > Corpus.max_chars:
            yield BadLine(f"over {Corpus.max_chars:,} characters")
        else:
            yield text


def _count_lines(path: Path) -> tuple[int, str]:
    """Return the number of lines of a file, and the hash of its bytes."""
    file = DataFile(path)
    n_lines = sum(1 for _ in file.lines())
    return n_lines, file.digest().hex()
