"""One model of a comparison: train it, then measure quality, speed and memory on the test set."""

import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TypedDict

import torch

from regard.alignment.evaluate import AlignmentScores
from regard.alignment.from_attention import Aligner
from regard.alignment.sentence_pairs import record_pairs
from regard.data.word_alignments import read_alignments
from regard.evaluate.buckets import length_buckets
from regard.evaluate.metrics import ScoreOptions, score_texts
from regard.evaluate.test_set import TestSet, read_test_set
from regard.files import write_atomically
from regard.pipelines.load import load_translator
from regard.pipelines.translator import Translator
from regard.text.clean import clean
from regard.text.units import length_unit
from regard.train.checkpoint import Checkpoints
from regard.train.log import read_metrics
from regard.train.run import Run, train


class QualityScores(TypedDict):
    """BLEU, chrF and the percentage of exact matches on some of the test sentences."""

    bleu: float
    chrf: float
    exact: float


class BucketScores(QualityScores):
    """Scores of the test sentences whose source has a certain number of words."""

    words: str
    sentences: int


class ResultRow(TypedDict, total=False):
    """What was measured of one model, as in compare.json. A model that failed has only the first three keys."""

    model: str
    folder: str
    error: str
    parameters: int
    updates: int
    valid_loss: float
    peak_memory: int | None
    """Bytes; missing if the model was only measured, not trained"""
    train_tokens_per_second: float | None
    sentences_per_second: float
    bleu: float
    chrf: float
    exact: float
    by_length: list[BucketScores]
    aer: float | None
    aer_by_layer: list[float]


@dataclass(frozen=True)
class TestPlan:
    """The test set of all models, and how they are tested."""

    __test__ = False  # not a test case of pytest

    files: tuple[Path, Path]
    alignments: Path | None = None
    edges: tuple[int, ...] = (5, 10, 15, 20)
    """The longest source of each length bucket but the last, in words or, without spaces, in characters"""
    beam: int = 1
    tokenize: str = "13a"

    def __post_init__(self) -> None:
        ScoreOptions(self.tokenize)  # an unknown name is an error before anything is trained

    def read(self) -> TestSet:
        """Read the test set, cleaned in the same way as training text."""
        test_set = read_test_set(*self.files)
        return TestSet([clean(s) for s in test_set.sources], [clean(r) for r in test_set.references])


def train_and_measure(run: Run, test: TestPlan) -> ResultRow:
    """Train the model as far as it is not trained yet, and test it."""
    cuda = torch.device(run.device).type == "cuda" if run.device else torch.cuda.is_available()
    updates_before = _updates_done(run.out)
    result = train(run)
    row: ResultRow = {"updates": result.progress.step, "valid_loss": result.validation.loss}
    if result.progress.step > updates_before:
        row["peak_memory"] = torch.cuda.max_memory_allocated() if cuda else peak_memory()
    rates = [
        line["tokens_per_second"] for line in read_metrics(run.out / "metrics.jsonl") if "tokens_per_second" in line
    ]
    row["train_tokens_per_second"] = median(rates) if rates else None
    translator = load_translator(run.out, device=run.device)
    parameters = sum(p.numel() for p in translator.traced_model.parameters())
    return {"parameters": parameters, **row, **measure(translator, test, run.out / "test.hyp")}


def measure(translator: Translator, test: TestPlan, output: Path) -> ResultRow:
    """Return scores and speed on the test set, and write the translations to `output`."""
    test_set = test.read()
    translator.translate(test_set.sources[:8], beam=test.beam, as_written=True)  # warm up
    start = time.perf_counter()
    hypotheses = [t.text for t in translator.translate(test_set.sources, beam=test.beam, as_written=True)]
    seconds = time.perf_counter() - start
    write_atomically(output, "".join(f"{line}\n" for line in hypotheses).encode())

    def scores(indices: Sequence[int]) -> QualityScores:
        references = [test_set.references[i] for i in indices]
        values = score_texts([hypotheses[i] for i in indices], references, test.tokenize)
        return {"bleu": values.bleu, "chrf": values.chrf, "exact": values.exact}

    overall = scores(range(len(hypotheses)))
    row: ResultRow = {
        "sentences_per_second": len(hypotheses) / seconds,
        "bleu": overall["bleu"],
        "chrf": overall["chrf"],
        "exact": overall["exact"],
        "by_length": [
            {"words": bucket.label, "sentences": len(bucket.rows), **scores(bucket.rows)}
            for bucket in length_buckets(test_set.sources, test.edges, length_unit(test_set.sources))
        ],
    }
    if test.alignments:
        row |= alignment_error_rates(translator, test_set, test.alignments)
    return row


def alignment_error_rates(translator: Translator, test_set: TestSet, path: Path) -> ResultRow:
    """Return `aer`, for the mean over all layers and heads, and `aer_by_layer`, both with the reference as output."""
    gold = read_alignments(path, len(test_set.sources))
    records = list(record_pairs(translator, test_set.sources, test_set.references))
    n_layers = len(records[0].cross)
    if not n_layers:
        return {"aer": None, "aer_by_layer": []}
    aligners = [Aligner(), *(Aligner(layer=layer) for layer in range(n_layers))]
    rates = [AlignmentScores.of([aligner(record) for record in records], gold).error_rate for aligner in aligners]
    return {"aer": rates[0], "aer_by_layer": rates[1:]}


def peak_memory() -> int:
    """Return the maximum resident memory of this process so far, in bytes."""
    status = Path("/proc/self/status")
    if status.is_file():  # getrusage would include the memory of the process that started this one
        match = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
        if match:
            return 1024 * int(match[1])
    import resource

    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else 1024 * size


def _updates_done(folder: Path) -> int:
    return max((checkpoint.step for checkpoint in Checkpoints(folder / "checkpoints", 1).all()), default=0)
