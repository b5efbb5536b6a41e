"""Scores for generated text: BLEU, chrF and TER by sacreBLEU with their signatures, and exact match."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from regard.errors import UserError
from regard.evaluate.corpus_statistics import CorpusStatistics, Interval
from regard.text.units import length_unit

BLEU_TOKENIZERS = ("13a", "intl", "char", "none", "zh", "ja-mecab", "ko-mecab", "spm", "flores101", "flores200")

_WORDS_AT_SPACES = ("13a", "intl", "none")


@dataclass(frozen=True)
class ScoreOptions:
    """Options of BLEU. chrF and TER always use their defaults, as in the sacrebleu command."""

    tokenize: str = "13a"
    lowercase: bool = False

    def __post_init__(self) -> None:
        if self.tokenize not in BLEU_TOKENIZERS:
            raise UserError(f"--tokenize {self.tokenize}: choose one of {', '.join(BLEU_TOKENIZERS)}")

    def problems_with(self, references: Sequence[str]) -> list[str]:
        """Return what makes scores against these references useless: words are counted that have no spaces between."""
        if self.tokenize not in _WORDS_AT_SPACES or length_unit(references) == "words":
            return []
        return [
            f"the references have no spaces between words, so BLEU with --tokenize {self.tokenize} and TER compare "
            "whole sentences; choose --tokenize char, zh, ja-mecab, spm or flores200, or read chrF"
        ]

    def metrics(self) -> dict[str, Any]:
        """Return the sacreBLEU metrics by name."""
        return {
            # force: sacreBLEU otherwise prints a warning about text that looks tokenised
            "BLEU": BLEU(tokenize=self.tokenize, lowercase=self.lowercase, force=True),
            "chrF2": CHRF(),
            "TER": TER(),
        }


@dataclass(frozen=True)
class MetricScore:
    """A corpus score and the sacreBLEU signature that makes it comparable."""

    score: float
    signature: str
    interval: Interval
    """Of 95 % confidence, by bootstrap resampling of the sentences"""


@dataclass(frozen=True)
class TextScores:
    """BLEU, chrF and exact match of generated texts, each from 0 to 100."""

    bleu: float
    chrf: float
    exact: float
    """Percentage of texts that equal their reference"""
    signature: str
    """sacreBLEU's signature of the BLEU score"""

    def by_name(self) -> dict[str, float]:
        return {"bleu": self.bleu, "chrf": self.chrf, "exact": self.exact}


def corpus_statistics(
    hypotheses: Sequence[str], references: Sequence[str], options: ScoreOptions, names: Sequence[str] = ()
) -> dict[str, CorpusStatistics]:
    """Compare texts with their references by the metrics called `names`, or by all of them."""
    return {
        name: CorpusStatistics.of(metric, hypotheses, references)
        for name, metric in options.metrics().items()
        if not names or name in names
    }


def corpus_scores(statistics: Mapping[str, CorpusStatistics]) -> dict[str, MetricScore]:
    """Return the score of each metric over a corpus, with its confidence interval."""
    return {name: MetricScore(each.score(), each.signature, each.interval()) for name, each in statistics.items()}


def score_texts(hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a") -> TextScores:
    """Compute BLEU, chrF and exact match of texts against one reference each."""
    statistics = corpus_statistics(hypotheses, references, ScoreOptions(tokenize), names=("BLEU", "chrF2"))
    matches = sum(h == r for h, r in zip(hypotheses, references, strict=True))
    bleu = statistics["BLEU"]
    return TextScores(bleu.score(), statistics["chrF2"].score(), 100.0 * matches / len(references), bleu.signature)
