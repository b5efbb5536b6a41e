"""Scores for generated text: BLEU, chrF and TER by sacreBLEU with their signatures, and exact match."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest

from regard.errors import UserError

BLEU_TOKENIZERS = ("13a", "intl", "char", "none", "zh", "ja-mecab", "ko-mecab", "spm", "flores101", "flores200")


@dataclass(frozen=True)
class ScoreOptions:
    """Options of BLEU. chrF and TER always use their defaults, as in the sacrebleu command."""

    tokenize: str = "13a"
    lowercase: bool = False

    def __post_init__(self) -> None:
        if self.tokenize not in BLEU_TOKENIZERS:
            raise UserError(f"--tokenize {self.tokenize}: choose one of {', '.join(BLEU_TOKENIZERS)}")

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


def corpus_scores(
    hypotheses: Sequence[str], references: Sequence[str], options: ScoreOptions, names: Sequence[str] = ()
) -> dict[str, MetricScore]:
    """Compute the metrics called `names`, or all of them, over a corpus."""
    scores = {}
    for name, metric in options.metrics().items():
        if not names or name in names:
            result = metric.corpus_score(list(hypotheses), [list(references)])
            scores[name] = MetricScore(result.score, metric.get_signature().format())
    return scores


def score_texts(hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a") -> TextScores:
    """Compute BLEU, chrF and exact match of texts against one reference each."""
    scores = corpus_scores(hypotheses, references, ScoreOptions(tokenize), names=("BLEU", "chrF2"))
    matches = sum(h == r for h, r in zip(hypotheses, references, strict=True))
    bleu = scores["BLEU"]
    return TextScores(bleu.score, scores["chrF2"].score, 100.0 * matches / len(references), bleu.signature)


@dataclass(frozen=True)
class BootstrapResult:
    """One metric of the baseline and of the system, with the p-value of the paired bootstrap test."""

    metric: str
    baseline: float
    system: float
    p_value: float


def paired_bootstrap(
    baseline: Sequence[str], system: Sequence[str], references: Sequence[str], options: ScoreOptions
) -> list[BootstrapResult]:
    """Run paired bootstrap resampling (Koehn 2004) with 1,000 samples, like `sacrebleu --paired-bs`."""
    test = PairedTest(
        [("baseline", list(baseline)), ("system", list(system))],
        options.metrics(),
        [list(references)],
        test_type="bs",
        n_samples=1000,
    )
    results: dict[str, Any] = test()[1]
    return [
        # For two equal scores sacreBLEU counts 0 better samples and would report the difference as significant.
        BootstrapResult(name, base.score, ours.score, 1.0 if base.score == ours.score else ours.p_value)
        for name, (base, ours) in results.items()
        if name != "System"
    ]
