"""How good translations are: BLEU, chrF and TER through sacreBLEU, with the signatures that make them comparable."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest

from regard.errors import UserError

TOKENIZERS = ("13a", "intl", "char", "none", "zh", "ja-mecab", "ko-mecab", "spm", "flores101", "flores200")
_LENGTHS = (10, 20, 30, 40)


@dataclass(frozen=True)
class ScoreOptions:
    tokenize: str = "13a"
    lowercase: bool = False
    """Of BLEU; the others have their own conventions, as in the sacrebleu command."""

    def __post_init__(self) -> None:
        if self.tokenize not in TOKENIZERS:
            raise UserError(f"--tokenize {self.tokenize}: choose one of {', '.join(TOKENIZERS)}")

    def metrics(self) -> dict[str, Any]:
        return {
            # force: sacreBLEU otherwise prints a warning about text that looks tokenised
            "BLEU": BLEU(tokenize=self.tokenize, lowercase=self.lowercase, force=True),
            "chrF2": CHRF(),
            "TER": TER(),
        }


@dataclass(frozen=True)
class MetricScore:
    score: float
    signature: str


def corpus_scores(
    hypotheses: Sequence[str], references: Sequence[str], options: ScoreOptions, names: Sequence[str] = ()
) -> dict[str, MetricScore]:
    """name → Score, of the metrics `names` or all of them"""
    scores = {}
    for name, metric in options.metrics().items():
        if not names or name in names:
            result = metric.corpus_score(list(hypotheses), [list(references)])
            scores[name] = MetricScore(result.score, metric.get_signature().format())
    return scores


def bleu_by_length(
    sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str], options: ScoreOptions
) -> list[tuple[str, int, float]]:
    """(words of the source, sentences, BLEU) for 1–10, 11–20, … words"""
    rows, low = [], 1
    lengths = [len(source.split()) for source in sources]
    for high in (*_LENGTHS, max([*lengths, _LENGTHS[-1] + 1])):
        chosen = [i for i, n in enumerate(lengths) if low <= n <= high]
        if chosen:
            hyp, ref = [hypotheses[i] for i in chosen], [references[i] for i in chosen]
            bleu = corpus_scores(hyp, ref, options, names=("BLEU",))["BLEU"].score
            rows.append((f"{low}–{high}" if high in _LENGTHS else f"over {low - 1}", len(chosen), bleu))
        low = high + 1
    return rows


@dataclass(frozen=True)
class BootstrapResult:
    """A metric of this system against the baseline's, with the paired bootstrap's p-value."""

    metric: str
    baseline: float
    system: float
    p_value: float


def compare(
    baseline: Sequence[str], system: Sequence[str], references: Sequence[str], options: ScoreOptions
) -> list[BootstrapResult]:
    """Paired bootstrap resampling (Koehn 2004), 1,000 samples, as `sacrebleu --paired-bs`."""
    test = PairedTest(
        [("baseline", list(baseline)), ("system", list(system))],
        options.metrics(),
        [list(references)],
        test_type="bs",
        n_samples=1000,
    )
    results: dict[str, Any] = test()[1]
    return [
        # Of two equal scores sacreBLEU's count of better samples would be 0, and the difference "significant".
        BootstrapResult(name, base.score, ours.score, 1.0 if base.score == ours.score else ours.p_value)
        for name, (base, ours) in results.items()
        if name != "System"
    ]
