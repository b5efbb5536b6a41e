"""Sequence-level distillation (Kim & Rush 2016): a small, fast student learns to translate as its teachers do.

The teachers translate the sources of the training data, and the student learns from these pairs. It has the tokenizer
of its teacher, so that both speak of the same ids.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from sacrebleu.metrics.chrf import CHRF

from regard.bulk.job_folder import files_fact, job_folder, model_fact
from regard.bulk.line_translator import check_translator
from regard.bulk.part import PART_LINES
from regard.bulk.workers import Workers
from regard.bundle import NO_LANGUAGES, load_directions, load_task_and_model, load_tokenizers
from regard.data.data_file import without_compression
from regard.data.mixture import CorpusConfig
from regard.data.pair_readers import is_pair_file
from regard.data.parallel_corpus import SentencePair
from regard.data.reading_progress import ReadingProgress, no_progress
from regard.errors import UserError
from regard.pipelines.engine import TORCH
from regard.synthetic.model_training import ModelTraining, TrainedModel, train_once
from regard.synthetic.pair_files import read_pairs, split_corpus, write_corpora, write_sources
from regard.synthetic.pair_filter import FilterResult, PairFilter, SyntheticPair, filter_pairs
from regard.synthetic.text_translation import TextTranslation, TranslatedFile
from regard.train.run import find_languages

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

    def run(self, progress: ReadingProgress = no_progress) -> "DistillationResult":
        """Do all steps that are not done: translate, filter, train."""
        with job_folder(self.folder, self.facts()):
            sources, valid = self._prepare()
            results = [
                self._translate(teachers, sources, self.folder / f"teacher-{number}.tsv.gz", progress)
                for number, teachers in enumerate(group_teachers(self.teachers), start=1)
            ]
            files = [*([self._pairs] if self.keep_original else []), *(result.file for result in results)]
            data = write_corpora(self.folder / "train.yaml", *(CorpusConfig(files=(file,)) for file in files))
            defaults = student_settings(self.training, self.teachers[0])
            tokenizer = self.teachers[0] / "tokenizer"
            run = self.training.run(data, valid, self.out, self.languages, defaults, tokenizer)
            return DistillationResult(tuple(results), train_once(run))

    @property
    def _pairs(self) -> Path:
        return self.folder / "pairs.tsv.gz"

    def _prepare(self) -> tuple[Path, list[Path] | None]:
        """Return the file of sources to translate, and the validation files."""
        if not self.has_pairs:
            return self.data[0], list(self.valid) if self.valid else None
        valid, sources = self.folder / "valid.tsv.gz", self.folder / "sources.txt.gz"
        languages = None if self.languages == NO_LANGUAGES else self.languages
        split_corpus(self.data, self.valid, languages, (self._pairs, valid))
        if not sources.exists():
            write_sources(sources, read_pairs(self._pairs))
        return sources, [valid]

    def _translate(
        self, teachers: tuple[Path, ...], sources: Path, out: Path, progress: ReadingProgress
    ) -> FilterResult:
        """Write the pairs (source, translation) of one teacher or ensemble."""
        options = dict(self.search)
        if self.best_of > 1:
            options |= {"n_best": self.best_of, "beam": max(self.best_of, options.get("beam", 0))}
        parts = self.folder / out.name.replace(".tsv.gz", ".parts")
        job = TextTranslation(teachers, sources, parts, options, self.part_lines, self.engine, self.workers)
        references = self._pairs if self.best_of > 1 else None
        return filter_pairs(TeacherPairs(job.run(progress), references), self.filter, out)


@dataclass(frozen=True)
class DistillationResult:
    """The synthetic pairs of each teacher or ensemble, and the student."""

    pairs: tuple[FilterResult, ...]
    student: TrainedModel


@dataclass(frozen=True)
class TeacherPairs:
    """(line, translation) of each line of a translated file, as often as it is read."""

    lines: TranslatedFile
    references: Path | None = None
    """File of pairs; the translation that is most similar to its reference (by chrF) is taken, instead of the best"""

    def __iter__(self) -> Iterator[SyntheticPair]:
        metric = CHRF()
        references: Iterator[SentencePair | None] = read_pairs(self.references) if self.references else iter(())
        for line in self.lines:
            pair = next(references, None)
            if not line.candidates:
                yield SyntheticPair(line.source, "", problem=line.problem)
                continue
            chosen = line.candidates[0]
            if pair is not None:
                chosen = max(line.candidates, key=lambda each: metric.sentence_score(each.text, [pair[1]]).score)
            yield SyntheticPair(line.source, chosen.text, chosen.score)


def group_teachers(teachers: tuple[Path, ...]) -> list[tuple[Path, ...]]:
    """Return the teachers in groups that share a tokenizer: each is an ensemble, or a teacher of its own."""
    groups: dict[str, list[Path]] = {}
    for teacher in teachers:
        groups.setdefault(load_tokenizers(teacher).fingerprint, []).append(teacher)
    return [tuple(group) for group in groups.values()]


def student_settings(training: ModelTraining, teacher: Path) -> list[str]:
    """Return the settings of a student: it is as wide as its teacher, with a deep encoder and a shallow decoder."""
    if training.default_recipe.model.kind != "transformer":
        return []
    _, model = load_task_and_model(teacher)
    part = model.get("decoder", model)
    sizes = {name: part[name] for name in _SIZES if name in part}
    settings = [f"model.{name}={value}" for name, value in sizes.items()]
    if training.recipe == RECIPE:
        return [*settings, f"train.lr={_WIDE_LR}"] if sizes.get("d_model", 0) >= _WIDE else settings
    return [*settings, "model.n_layers=6", "model.n_decoder_layers=1"] if training.is_auto else []
