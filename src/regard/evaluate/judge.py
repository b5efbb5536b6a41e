"""Models of the other tasks judged on test data: texts, labels, captions."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.corpus import Corpus, CorpusReport
from regard.data.images import read_captions
from regard.data.text_store import open_text
from regard.errors import UserError
from regard.evaluate.metrics import ScoreOptions, corpus_scores
from regard.evaluate.validation import mean_loss
from regard.pipelines.captioner import Captioner
from regard.pipelines.classifier import Classifier
from regard.pipelines.generator import Generator
from regard.pipelines.load import load
from regard.text.words import word_indices
from regard.train.tasks.classify import label_scores
from regard.train.tasks.text import text_batches, text_scores

_BATCH_TOKENS = 8192


@dataclass(frozen=True)
class TestResult:
    """Named figures, in the order in which they are shown"""

    figures: dict[str, float]
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return dict(self.figures)

    def to_text(self) -> str:
        rows = [f"{name:24}{value:12,.4f}" for name, value in self.figures.items()]
        return "\n".join([*rows, *self.notes])


def judge(
    folder: Path, path: Path, device: str | None = None, stride: int | None = None, regions: Path | None = None
) -> TestResult:
    """The model of a directory on one test file, as its task has it"""
    model = load(folder, device=device)
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    match model:
        case Generator():
            return judge_text(model, path, stride)
        case Classifier():
            return judge_labels(model, path)
        case Captioner():
            return judge_captions(model, path, regions)
    raise UserError("a translator is judged on two files: SRC and REF")


def judge_text(writer: Generator, path: Path, stride: int | None = None) -> TestResult:
    """Perplexity and bits per byte of a text; a smaller stride gives every token more of what stands before it."""
    store = open_text([path], writer.tokenizer)
    if not store.n_bytes:
        raise UserError(f"{path}: no text in it")
    stride = stride or writer.context
    batches = text_batches(store, writer.context, stride, _BATCH_TOKENS)
    loss = mean_loss(writer.model, batches, writer.device, lambda: None)
    notes = (f"context {writer.context}, stride {stride}", *_notes(store.report))
    return TestResult({"tokens": len(store), "loss": loss, **text_scores(loss, store, writer.tokenizer)}, notes)


def judge_labels(classifier: Classifier, path: Path) -> TestResult:
    report = CorpusReport()
    pairs = list(Corpus((path,)).pairs(report))
    if not pairs:
        raise UserError(f"{path}: no line of text and label in it")
    texts, labels = [text for text, _ in pairs], [label for _, label in pairs]
    answers = [found.label for found in classifier.classify(texts)]
    return TestResult({"texts": len(pairs), **label_scores(labels, answers)}, _notes(report))


def _notes(report: CorpusReport) -> tuple[str, ...]:
    """What was wrong with the test file, if anything was"""
    return tuple(report.describe("test data")) if report.problems else ()


def judge_captions(captioner: Captioner, path: Path, regions: Path | None = None) -> TestResult:
    """Exact match and BLEU, and with gold regions how much of a word's attention lies on what it names"""
    pairs = read_captions(path)
    found = captioner.caption([picture for picture, _ in pairs])
    references = [caption for _, caption in pairs]
    exact = sum(c.text == reference for c, reference in zip(found, references, strict=True)) / len(pairs)
    bleu = corpus_scores([c.text for c in found], references, ScoreOptions(tokenize="none"), names=("BLEU",))["BLEU"]
    figures = {"pictures": float(len(pairs)), "exact": 100.0 * exact, "BLEU": bleu.score}
    if regions:
        figures |= region_shares(captioner, pairs, read_regions(regions))
    return TestResult(figures, (bleu.signature,))


Box = tuple[int, int, int, int]
GoldRegions = dict[str, list[tuple[int, Box]]]


def read_regions(path: Path) -> GoldRegions:
    """JSONL of {"picture": path, "regions": [{"word": index, "box": [top, left, bottom, right]}, …]}, by file name"""
    found: GoldRegions = {}
    try:
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            found[Path(row["picture"]).name] = [(int(r["word"]), _box(r["box"])) for r in row["regions"]]
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"{path}: not a JSONL of pictures and regions, as `regard data shapes` writes it") from None
    return found


def _box(numbers: Sequence[int]) -> Box:
    top, left, bottom, right = (int(n) for n in numbers)
    return top, left, bottom, right


def region_shares(captioner: Captioner, pairs: Sequence[tuple[Path, str]], gold: GoldRegions) -> dict[str, float]:
    """The share of attention on the gold region of each word that has one, while the model says the reference.

    The mean over all heads and the best one; beside it the region's share of the picture, which blind attention gives.
    """
    shares, areas = [], []
    for picture, caption in pairs:
        if picture.name not in gold:
            continue
        tokens, maps = captioner.attention(picture, caption)
        words = np.asarray(word_indices(tokens))
        for word, box in gold[picture.name]:
            inside = _cover(box, captioner.size, captioner.n_regions)
            of_word = maps[:, :, : len(tokens)][:, :, words == word].mean(2)  # [layers, heads, rows, columns]
            shares.append((of_word * inside).sum((-2, -1)))
            areas.append(inside.mean())
    if not shares:
        raise UserError("none of the gold regions is of these pictures; give the regions of the same test set")
    each = 100.0 * np.mean(shares, axis=0)
    if not each.size:
        raise UserError("this captioner attends to no regions; leave --regions out")
    return {
        "attention_on_region": float(each.mean()),
        "attention_best_head": float(each.max()),
        "area_of_region": 100.0 * float(np.mean(areas)),
    }


def _cover(box: Box, size: int, side: int) -> NDArray[np.float64]:
    """[side, side]: how much of each region of the grid lies in the box, in pixels"""
    edges = np.linspace(0, size, side + 1)
    top, left, bottom, right = box

    def overlap(low: int, high: int) -> NDArray[np.float64]:
        inside = np.minimum(edges[1:], high) - np.maximum(edges[:-1], low)
        return np.clip(inside, 0, None) / (size / side)

    return np.outer(overlap(top, bottom), overlap(left, right))
