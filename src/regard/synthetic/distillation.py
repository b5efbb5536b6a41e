"""Sequence-level distillation (Kim & Rush 2016): a small, fast student learns to translate as its teachers do.

The teachers translate the sources of the training data, and the student learns from these pairs. It has the tokenizer
of its teacher, so that both speak of the same ids.
"""

from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Any

from sacrebleu.metrics.chrf import CHRF

from regard.bulk.job_folder import files_fact, job_folder, model_fact
from regard.bulk.line_translator import TranslationWork, check_translator
from regard.bulk.part import PART_LINES
from regard.bulk.workers import Workers
from regard.bundle import NO_LANGUAGES, load_directions, load_task_and_model, load_tokenizers
from regard.data.data_file import without_compression
from regard.data.mixture import CorpusConfig
from regard.data.pair_readers import find_languages, is_pair_file
from regard.data.reading_progress import ReadingProgress, no_progress
from regard.errors import UserError
from regard.pipelines.engine import CTRANSLATE2, TORCH, EngineChoice
from regard.synthetic.model_training import ModelTraining, TrainedModel, is_trained, train_once
from regard.synthetic.pair_files import read_pairs, reported, split_corpus, write_corpora, write_sources
from regard.synthetic.pair_filter import FilterResult, PairFilter, SyntheticPair, filter_pairs, read_result
from regard.synthetic.text_translation import TextTranslation, TranslatedFile

RECIPE = "student"
"""The recipe of students"""

_SIZES = ("d_model", "d_ff", "n_heads")
_WIDE, _WIDE_LR = 512, 3e-3  # wide models need a lower learning rate


@dataclass(frozen=True)
class Distillation:
    """Teachers, the data that they translate, and how the student is trained."""

    teachers: tuple[Path, ...]
    data: tuple[Path, ...]
    """Files of pairs, or one file of text in the source language"""
    out: Path
    """The model directory of the student; the synthetic pairs are in its folder `distillation`"""
    valid: tuple[Path, ...] | None = None
    keep_original: bool = False
    """Train on the original pairs too"""
    best_of: int = 1
    """How many translations to choose from, by similarity to the reference"""
    training: ModelTraining = field(default_factory=lambda: ModelTraining(RECIPE))
    search: Mapping[str, Any] = field(default_factory=dict)
    filter: PairFilter = field(default_factory=PairFilter)
    part_lines: int = PART_LINES
    engine: str = TORCH
    workers: Workers = field(default_factory=Workers)
    """Which translate"""

    def __post_init__(self) -> None:
        for teacher in self.teachers:
            check_translator(teacher)
        if not self.has_pairs and (self.keep_original or self.best_of > 1):
            option = "--keep-original" if self.keep_original else "--best-of"
            raise UserError(f"{option} needs pairs, but {self.data[0]} is text of one language; give SRC TGT files")
        self._check_languages()
        self._check_search()
        self.training.load(self._defaults)
        if self.out.exists() and not self.folder.is_dir() and any(self.out.iterdir()):
            raise UserError(f"--out {self.out}: is not empty; choose a new folder")

    def _check_languages(self) -> None:
        """Refuse teachers of different target languages, and data of the other direction or of the target language."""
        source, target = self.languages
        for teacher in self.teachers[1:]:
            other = load_directions(teacher).find(self.search.get("to")).target
            if other != target and NO_LANGUAGES[1] not in (other, target):
                raise UserError(f"{teacher}: translates to {other}, but {self.teachers[0]} to {target}; leave one out")
        if self.languages == NO_LANGUAGES:
            return
        if not self.has_pairs and without_compression(self.data[0]).suffix == f".{target}":
            raise UserError(f"--data {self.data[0]}: seems to be {target} text; the teachers translate {source} text")
        if find_languages(self.data) == (target, source):
            raise UserError(
                f"--data: the files are {'-'.join(self.languages[::-1])}, but {self.teachers[0]} translates "
                f"{' to '.join(self.languages)}; name the files in the other order"
            )

    def _check_search(self) -> None:
        """Refuse what would be refused when the translation begins."""
        for group in group_teachers(self.teachers):
            TranslationWork(models=group, engine=self.engine, options=self._search_options).check()
            if len(group) > 1 and EngineChoice.parse(self.engine).name == CTRANSLATE2:
                raise UserError(
                    f"--engine {self.engine}: it decodes with one model, but {' and '.join(map(str, group))} share a "
                    "tokenizer and so form an ensemble; leave --engine out"
                )

    @property
    def folder(self) -> Path:
        """The folder of the synthetic pairs"""
        return self.out / "distillation"

    @property
    def has_pairs(self) -> bool:
        return len(self.data) == 2 or is_pair_file(self.data[0])

    @cached_property
    def languages(self) -> tuple[str, str]:
        """Of the teacher, and so of the student"""
        return load_directions(self.teachers[0]).find(self.search.get("to")).languages

    @cached_property
    def _defaults(self) -> dict[str, Any]:
        """Options of the student that those of the user override"""
        return student_options(self.training, self.teachers[0])

    @property
    def _search_options(self) -> dict[str, Any]:
        """Options of the translator: a beam that the user has given is made wide enough for `best_of` translations."""
        if self.best_of == 1:
            return dict(self.search)
        beam = {"beam": max(self.best_of, self.search["beam"])} if "beam" in self.search else {}
        return {**self.search, **beam, "n_best": self.best_of}

    def facts(self) -> dict[str, Any]:
        """Return what the result depends on."""
        return {
            "teachers": [model_fact(teacher) for teacher in self.teachers],
            "data": files_fact(self.data),
            "validation data": files_fact(self.valid) if self.valid else None,
            "keep original": self.keep_original,
            "best of": self.best_of,
            **self.training.facts(),
            "search": dict(self.search),
            "filter": self.filter.model_dump(),
            "lines per part": self.part_lines,
            "engine": self.engine,
        }

    def run(
        self, progress: ReadingProgress = no_progress, announce: Callable[[str], None] = lambda line: None
    ) -> "DistillationResult":
        """Do all steps that are not done: translate, filter, train. `announce` is called with a line about each."""
        announce("reading the data")
        with job_folder(self.folder, self.facts()):
            sources, valid = self._prepare(progress)
            results = [
                self._translate(teachers, sources, self.folder / f"teacher-{number}.tsv.gz", progress, announce)
                for number, teachers in enumerate(group_teachers(self.teachers), start=1)
            ]
            files = [*([self._pairs] if self.keep_original else []), *(result.file for result in results)]
            data = write_corpora(self.folder / "train.yaml", *(CorpusConfig(files=(file,)) for file in files))
            tokenizer = self.teachers[0] / "tokenizer"
            run = self.training.run(data, valid, self.out, self.languages, self._defaults, tokenizer=tokenizer)
            if not is_trained(self.out):
                announce("training the student")
            return DistillationResult(tuple(results), train_once(run))

    @property
    def _pairs(self) -> Path:
        return self.folder / "pairs.tsv.gz"

    def _prepare(self, progress: ReadingProgress) -> tuple[Path, list[Path] | None]:
        """Return the file of sources to translate, and the validation files."""
        if not self.has_pairs:
            return self.data[0], list(self.valid) if self.valid else None
        valid, sources = self.folder / "valid.tsv.gz", self.folder / "sources.txt.gz"
        languages = None if self.languages == NO_LANGUAGES else self.languages
        split_corpus(self.data, self.valid, languages, (self._pairs, valid), progress)
        if not sources.exists():
            write_sources(sources, reported(read_pairs(self._pairs), "writing", progress))
        return sources, [valid]

    def _translate(
        self,
        teachers: tuple[Path, ...],
        sources: Path,
        out: Path,
        progress: ReadingProgress,
        announce: Callable[[str], None],
    ) -> FilterResult:
        """Write the pairs (source, translation) of one teacher or ensemble, unless that was done."""
        if done := read_result(out):
            return done
        announce(f"translating {sources} with {', '.join(map(str, teachers))}")
        parts, options = self.folder / out.name.replace(".tsv.gz", ".parts"), self._search_options
        job = TextTranslation(teachers, sources, parts, options, self.part_lines, self.engine, self.workers)
        lines = job.run(progress)
        announce("filtering the translations")
        chosen = most_similar(lines, self._pairs, progress) if self.best_of > 1 else None
        return filter_pairs(TeacherPairs(lines, chosen), self.filter, out, progress)


@dataclass(frozen=True)
class DistillationResult:
    """The synthetic pairs of each teacher or ensemble, and the student."""

    pairs: tuple[FilterResult, ...]
    student: TrainedModel


@dataclass(frozen=True)
class TeacherPairs:
    """(line, translation) of each line of a translated file, as often as it is read."""

    lines: TranslatedFile
    chosen: "array[int] | None" = None
    """The number of the translation to take of each line; None: the best, which is the first"""

    def __iter__(self) -> Iterator[SyntheticPair]:
        for line, index in zip(self.lines, repeat(0) if self.chosen is None else self.chosen, strict=False):
            if line.candidates:
                translation = line.candidates[index]
                yield SyntheticPair(line.source, translation.text, translation.score)
            else:
                yield SyntheticPair(line.source, "", problem=line.problem)


def most_similar(lines: TranslatedFile, references: Path, progress: ReadingProgress) -> "array[int]":
    """Return which translation of each line is most similar to the target of its pair, by chrF."""
    metric, chosen = CHRF(), array("i")
    all_lines = reported(lines, "choosing", progress, lines.n_lines)
    for line, (_, reference) in zip(all_lines, read_pairs(references), strict=True):
        scores = [metric.sentence_score(each.text, [reference]).score for each in line.candidates]
        chosen.append(scores.index(max(scores)) if scores else 0)
    return chosen


def group_teachers(teachers: tuple[Path, ...]) -> list[tuple[Path, ...]]:
    """Return the teachers in groups that share a tokenizer: each is an ensemble, or a teacher of its own."""
    groups: dict[str, list[Path]] = {}
    for teacher in teachers:
        groups.setdefault(load_tokenizers(teacher).fingerprint, []).append(teacher)
    return [tuple(group) for group in groups.values()]


def student_options(training: ModelTraining, teacher: Path) -> dict[str, Any]:
    """Return the defaults of a student: it is as wide as its teacher, with a deep encoder and a shallow decoder."""
    if training.default_recipe.model.kind != "transformer":
        return {}
    _, model = load_task_and_model(teacher)
    part = model.get("decoder", model)
    sizes = {name: part[name] for name in _SIZES if name in part}
    if training.is_auto:
        return {"model": {**sizes, "n_layers": 6, "n_decoder_layers": 1}}
    if training.recipe == RECIPE and sizes.get("d_model", 0) >= _WIDE:
        return {"model": sizes, "train": {"lr": _WIDE_LR}}
    return {"model": sizes}
