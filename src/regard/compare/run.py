"""One entrant of a comparison: trained, then measured on the test set."""

import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from regard.alignment.aligner import Aligner
from regard.alignment.evaluate import AlignmentErrors, watch_pairs
from regard.data.word_alignments import read_alignments
from regard.evaluate.metrics import ScoreOptions, corpus_scores
from regard.evaluate.translation import TestSet, read_test_set
from regard.files import write_atomically
from regard.pipelines.load import load_translator
from regard.pipelines.translator import Translator
from regard.text.clean import clean
from regard.train.checkpoint import Checkpoints
from regard.train.log import read_metrics
from regard.train.run import Run, train

Row = dict[str, Any]
"""What was measured of a model, by name"""


@dataclass(frozen=True)
class Test:
    """What all models are tested on, and how."""

    __test__ = False  # not a test of pytest's

    files: tuple[Path, Path]
    alignments: Path | None = None
    edges: tuple[int, ...] = (5, 10, 15, 20)
    """The longest source, in words, of each bucket but the last"""
    beam: int = 1
    tokenize: str = "13a"

    def __post_init__(self) -> None:
        ScoreOptions(self.tokenize)  # an unknown one is refused before anything is trained

    def read(self) -> TestSet:
        test_set = read_test_set(*self.files)
        return TestSet([clean(s) for s in test_set.sources], [clean(r) for r in test_set.references])


def train_and_measure(run: Run, test: Test) -> Row:
    """Train what is left to train, and test the model; `peak_memory` is there only if there was something to train."""
    cuda = torch.device(run.device).type == "cuda" if run.device else torch.cuda.is_available()
    before = _steps_done(run.out)
    result = train(run)
    trained: Row = {"updates": result.progress.step, "valid_loss": result.validation.loss}
    if result.progress.step > before:
        trained["peak_memory"] = torch.cuda.max_memory_allocated() if cuda else peak_memory()
    rates = [row["tokens_per_second"] for row in read_metrics(run.out / "metrics.jsonl") if "tokens_per_second" in row]
    trained["train_tokens_per_second"] = median(rates) if rates else None
    translator = load_translator(run.out, device=run.device)
    parameters = sum(p.numel() for p in translator.model.parameters())  # type: ignore[attr-defined]
    return {"parameters": parameters, **trained, **measure(translator, test, run.out / "test.hyp")}


def measure(translator: Translator, test: Test, output: Path) -> Row:
    """Scores and speed on the test set; the translations are written to `output`."""
    test_set = test.read()
    translator.translate(test_set.sources[:8], beam=test.beam)  # what happens only once is not speed
    start = time.perf_counter()
    hypotheses = [t.text for t in translator.translate(test_set.sources, beam=test.beam)]
    seconds = time.perf_counter() - start
    write_atomically(output, "".join(f"{line}\n" for line in hypotheses).encode())
    everything = range(len(hypotheses))
    row: Row = {"sentences_per_second": len(hypotheses) / seconds, **_scores(test_set, hypotheses, everything, test)}
    buckets = length_buckets(test_set.sources, test.edges)
    row["by_length"] = [
        {"words": name, "sentences": len(rows), **_scores(test_set, hypotheses, rows, test)} for name, rows in buckets
    ]
    if test.alignments:
        row |= alignment_errors(translator, test_set, test.alignments)
    return row


def length_buckets(sources: Sequence[str], edges: Sequence[int]) -> list[tuple[str, list[int]]]:
    """(`6–10`, the sources of so many words) for every bucket that is not empty"""
    lengths = [len(source.split()) for source in sources]
    buckets, low = [], 1
    for high in (*edges, None):
        rows = [i for i, n in enumerate(lengths) if n >= low and (high is None or n <= high)]
        if rows:
            buckets.append((f"{low}+" if high is None else str(low) if low == high else f"{low}–{high}", rows))
        low = (high or 0) + 1
    return buckets


def alignment_errors(translator: Translator, test_set: TestSet, path: Path) -> Row:
    """`aer` of the mean over layers and heads, and `aer_by_layer`, while the model is made to say the reference."""
    gold = read_alignments(path, len(test_set.sources))
    records = list(watch_pairs(translator, test_set.sources, test_set.references))
    n_layers = len(records[0].cross)
    if not n_layers:
        return {"aer": None, "aer_by_layer": []}
    rates = [AlignmentErrors.of([aligner(record) for record in records], gold).rate for aligner in _by_layer(n_layers)]
    return {"aer": rates[0], "aer_by_layer": rates[1:]}


def _by_layer(n_layers: int) -> list[Aligner]:
    """The mean of all layers, and then each"""
    return [Aligner(), *(Aligner(layer=layer) for layer in range(n_layers))]


def peak_memory() -> int:
    """The most bytes of memory that this process has held."""
    status = Path("/proc/self/status")
    if status.is_file():  # getrusage would count what the process that started this one held
        found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
        if found:
            return 1024 * int(found[1])
    import resource

    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else 1024 * size


def _scores(test_set: TestSet, hypotheses: Sequence[str], rows: Sequence[int], test: Test) -> dict[str, float]:
    chosen, right = [hypotheses[i] for i in rows], [test_set.references[i] for i in rows]
    scores = corpus_scores(chosen, right, ScoreOptions(test.tokenize), names=("BLEU", "chrF2"))
    exact = 100.0 * sum(h == r for h, r in zip(chosen, right, strict=True)) / len(right)
    return {"bleu": scores["BLEU"].score, "chrf": scores["chrF2"].score, "exact": exact}


def _steps_done(folder: Path) -> int:
    return max((checkpoint.step for checkpoint in Checkpoints(folder / "checkpoints", 1).all()), default=0)
