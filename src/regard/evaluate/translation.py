"""Evaluation of translators on a test set of sources and references."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regard.data.data_file import read_lines
from regard.data.text_spool import TextSpool
from regard.errors import UserError
from regard.evaluate.buckets import length_buckets
from regard.evaluate.metrics import BootstrapResult, MetricScore, ScoreOptions, corpus_scores, paired_bootstrap
from regard.paths import check_input_file
from regard.pipelines.translator import Translator

_LENGTH_LIMITS = (10, 20, 30, 40)  # words of the source


@dataclass(frozen=True)
class TestSet:
    __test__ = False  # not a pytest class

    sources: list[str]
    references: list[str]


@dataclass(frozen=True)
class Evaluation:
    scores: dict[str, MetricScore]
    by_length: list[tuple[str, int, float]]
    """(words of the source, sentences, BLEU)"""
    comparison: list[BootstrapResult]
    """Paired bootstrap against a baseline; empty without one"""
    hypotheses: list[str]

    def to_json(self) -> dict[str, Any]:
        return {
            "scores": {name: asdict(score) for name, score in self.scores.items()},
            "bleu_by_source_length": [
                {"words": words, "sentences": count, "bleu": bleu} for words, count, bleu in self.by_length
            ],
            "paired_bootstrap": [asdict(row) for row in self.comparison],
        }

    def to_text(self) -> str:
        rows = [f"{name:6}{score.score:7.2f}   {score.signature}" for name, score in self.scores.items()]
        rows += ["", "words of the source   sentences   BLEU"]
        rows += [f"{words:19}{count:12,}{bleu:7.2f}" for words, count, bleu in self.by_length]
        if self.comparison:
            rows += ["", "paired bootstrap   baseline   this model   p"]
            for row in self.comparison:
                rows.append(f"{row.metric:19}{row.baseline:8.2f}{row.system:13.2f}   {row.p_value:.4f}")
        return "\n".join(rows)


def read_test_set(src: Path, ref: Path) -> TestSet:
    """Read sources and references from two line-aligned files, plain or gzipped."""
    sources, references = list(_text_lines(src)), list(_text_lines(ref))
    _check_counts(src, sources, ref, references)
    return TestSet(sources, references)


@contextmanager
def spooled_pairs(src: Path, tgt: Path) -> Iterator[tuple[TextSpool, TextSpool]]:
    """Read two line-aligned files that may be larger than memory."""
    with closing(TextSpool()) as sources, closing(TextSpool()) as targets:
        for path, spool in ((src, sources), (tgt, targets)):
            for line in _text_lines(path):
                spool.append(line)
        _check_counts(src, sources, tgt, targets)
        yield sources, targets


def _check_counts(src: Path, sources: Sequence[str], ref: Path, references: Sequence[str]) -> None:
    if len(sources) != len(references):
        raise UserError(f"{src} has {len(sources):,} lines but {ref} has {len(references):,}; they must correspond")
    if not sources:
        raise UserError(f"{src}: is empty; give at least one sentence")


def evaluate(
    translator: Translator,
    test_set: TestSet,
    options: ScoreOptions,
    baseline: Translator | None = None,
    decode: dict[str, Any] | None = None,
) -> Evaluation:
    """Translate the test set and score it; with a baseline, test whether the difference is significant."""
    hypotheses = _translate(translator, test_set, decode or {})
    comparison = []
    if baseline:
        others = _translate(baseline, test_set, decode or {})
        comparison = paired_bootstrap(others, hypotheses, test_set.references, options)
    return Evaluation(
        corpus_scores(hypotheses, test_set.references, options),
        bleu_by_length(test_set.sources, hypotheses, test_set.references, options),
        comparison,
        hypotheses,
    )


def _translate(translator: Translator, test_set: TestSet, decode: dict[str, Any]) -> list[str]:
    translations = translator.translate(test_set.sources, skip_long=True, **decode)
    for number, translation in enumerate(translations, start=1):
        if translation.problem:
            raise UserError(translation.problem.describe(f"line {number:,} of the sources", "--max-source"))
    return [translation.text for translation in translations]


def bleu_by_length(
    sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str], options: ScoreOptions
) -> list[tuple[str, int, float]]:
    """Return (words of the source, sentences, BLEU) for sources of 1–10, 11–20, … words."""
    rows = []
    for bucket in length_buckets(sources, _LENGTH_LIMITS):
        hyp, ref = [hypotheses[i] for i in bucket.rows], [references[i] for i in bucket.rows]
        bleu = corpus_scores(hyp, ref, options, names=("BLEU",))["BLEU"].score
        label = f"over {bucket.low - 1}" if bucket.high is None else bucket.label
        rows.append((label, len(bucket.rows), bleu))
    return rows


def _text_lines(path: Path) -> Iterator[str]:
    check_input_file(path)
    try:
        for line in read_lines(path):
            yield line.decode("utf-8").rstrip("\r")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}: not UTF-8 ({error.reason} at byte {error.start} of a line); convert it first"
        ) from None
