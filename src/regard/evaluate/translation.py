"""Evaluation of translators on a test set of sources and references."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from regard.data.reading_progress import ReadingProgress, no_progress
from regard.errors import UserError
from regard.evaluate.correlation import Correlation
from regard.evaluate.external_metric import ExternalMetric
from regard.evaluate.group_scores import GroupScore, scores_by_length, scores_by_tag
from regard.evaluate.metrics import MetricScore, ScoreOptions, corpus_scores, corpus_statistics
from regard.evaluate.paired_test import PairedResult, PairedTestName, paired_test
from regard.evaluate.test_set import TestSet
from regard.pipelines.translation import Translation
from regard.pipelines.translator import Translator
from regard.text.units import LengthUnit


@dataclass(frozen=True)
class Comparison:
    """A system against a baseline: the paired test and its results, one per metric."""

    test: PairedTestName
    results: list[PairedResult]


@dataclass(frozen=True)
class Evaluation:
    """Scores of the translations of a test set."""

    scores: dict[str, MetricScore]
    length_unit: LengthUnit
    by_length: list[GroupScore]
    by_tag: list[GroupScore]
    """Empty without tags"""
    comparison: Comparison | None
    """None without a baseline"""
    hypotheses: list[str]
    confidence: Correlation
    """Of the confidence in each translation with its chrF"""
    external: dict[str, MetricScore] = field(default_factory=dict)
    """Metrics that other programs have computed; their signatures are the commands"""

    def with_metrics(self, metrics: Sequence[ExternalMetric], test_set: TestSet) -> "Evaluation":
        """Add metrics that other programs compute."""
        texts = test_set.sources, self.hypotheses, test_set.references
        return replace(self, external={metric.name: metric.score(*texts) for metric in metrics})

    def to_json(self) -> dict[str, Any]:
        tree: dict[str, Any] = {
            "scores": {name: asdict(score) for name, score in (self.scores | self.external).items()},
            "length_unit": self.length_unit,
            "by_source_length": [asdict(group) for group in self.by_length],
            "confidence_and_chrf": asdict(self.confidence),
        }
        if self.by_tag:
            tree["by_tag"] = [asdict(group) for group in self.by_tag]
        if self.comparison:
            tree[f"paired_{self.comparison.test}"] = [asdict(row) for row in self.comparison.results]
        return tree

    def to_text(self) -> str:
        width = max(map(len, ("metric", *self.scores, *self.external)))
        rows = [f"{'metric':{width}}     score   95 % interval      signature"]
        rows += [f"{name:{width}} {_score_row(score, digits=2)}" for name, score in self.scores.items()]
        rows += [f"{name:{width}} {_score_row(score, digits=4)}" for name, score in self.external.items()]
        rows += ["", *_group_table(f"{self.length_unit} of the source", self.by_length)]
        if self.by_tag:
            rows += ["", *_group_table("tag", self.by_tag)]
        if self.comparison:
            rows += ["", f"paired {self.comparison.test:15} baseline   this model   p"]
            for row in self.comparison.results:
                rows.append(f"{row.metric:22}{row.baseline:9.2f}{row.system:13.2f}   {row.p_value:.4f}")
        rows += ["", f"correlation of confidence and chrF2   {self.confidence.to_text()}"]
        return "\n".join(rows)


def _score_row(score: MetricScore, digits: int) -> str:
    low, high = score.interval
    return f"{score.score:9.{digits}f}   {low:7.{digits}f} – {high:7.{digits}f}   {score.signature}"


def _group_table(title: str, groups: Sequence[GroupScore]) -> list[str]:
    width = max(len(title), *(len(group.name) for group in groups), 22) if groups else len(title)
    head = f"{title:{width}}{'sentences':>12}{'BLEU':>8}{'chrF2':>8}"
    return [head, *(f"{g.name:{width}}{g.sentences:12,}{g.bleu:8.2f}{g.chrf:8.2f}" for g in groups)]


def evaluate(
    translator: Translator,
    test_set: TestSet,
    options: ScoreOptions,
    *,
    baseline: Translator | None = None,
    paired: PairedTestName = "bootstrap",
    tags: Sequence[str] = (),
    decode: dict[str, Any] | None = None,
    progress: ReadingProgress = no_progress,
) -> Evaluation:
    """Translate the test set and score it; with a baseline, test whether the difference is significant.

    `tags` are any names, one per sentence, by which scores are reported too.
    """
    translations = list(_translate(translator, test_set, decode or {}, progress))
    hypotheses = [translation.text for translation in translations]
    comparison = None
    if baseline:
        others = [translation.text for translation in _translate(baseline, test_set, decode or {}, progress)]
        comparison = Comparison(paired, paired_test(paired, others, hypotheses, test_set.references, options))
    statistics = corpus_statistics(hypotheses, test_set.references, options)
    unit, by_length = scores_by_length(test_set.sources, statistics)
    return Evaluation(
        corpus_scores(statistics),
        unit,
        by_length,
        scores_by_tag(tags, statistics),
        comparison,
        hypotheses,
        Correlation.of(
            np.array([translation.confidence for translation in translations]), statistics["chrF2"].sentence_scores()
        ),
    )


def _translate(
    translator: Translator, test_set: TestSet, decode: dict[str, Any], progress: ReadingProgress
) -> Iterator[Translation]:
    for number, translation in enumerate(
        translator.stream(test_set.sources, skip_long=True, as_written=True, **decode), start=1
    ):
        if translation.problem:
            raise UserError(translation.problem.describe(f"line {number:,} of the sources", "--max-source"))
        progress("translating", number)
        yield translation
