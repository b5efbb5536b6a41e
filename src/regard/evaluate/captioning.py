"""Evaluation of captioners: exact match, BLEU, and attention on gold regions."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.data.image_store import read_captions
from regard.errors import UserError
from regard.evaluate.metrics import score_texts
from regard.evaluate.result import TestResult
from regard.paths import check_input_file
from regard.pipelines.captioner import Captioner
from regard.text.words import TokenWords

Box = tuple[int, int, int, int]
"""(top, left, bottom, right) in pixels"""
GoldRegions = dict[str, list[tuple[int, Box]]]
"""Image file name → (index of a caption word, counted as in alignments; box of what it names)"""


def evaluate_captions(captioner: Captioner, path: Path, regions: Path | None = None) -> TestResult:
    """Caption the images of a TSV; with gold regions also measure how much attention falls on them."""
    pairs = read_captions(path)
    captions = [caption.text for caption in captioner.caption([image for image, _ in pairs])]
    scores = score_texts(captions, [reference for _, reference in pairs], tokenize="none")
    values = {"pictures": float(len(pairs)), "exact": scores.exact, "BLEU": scores.bleu}
    if regions:
        values |= attention_on_regions(captioner, pairs, read_regions(regions))
    return TestResult(values, (scores.signature,))


def read_regions(path: Path) -> GoldRegions:
    """Read JSONL of {"picture": path, "regions": [{"word": index, "box": [top, left, bottom, right]}, …]}."""
    check_input_file(path)
    regions: GoldRegions = {}
    try:
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            regions[Path(row["picture"]).name] = [(int(r["word"]), _box(r["box"])) for r in row["regions"]]
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"{path}: not a JSONL file of pictures and regions as `regard data shapes` writes it") from None
    return regions


def _box(numbers: Sequence[int]) -> Box:
    top, left, bottom, right = (int(n) for n in numbers)
    return top, left, bottom, right


def attention_on_regions(
    captioner: Captioner, pairs: Sequence[tuple[Path, str]], gold: GoldRegions
) -> dict[str, float]:
    """Return the percentage of each word's attention on its gold region while the reference is decoded.

    Three values: the mean over all heads, the best head, and for comparison the region's share of the image area,
    which uniform attention would give.
    """
    shares, areas = [], []
    for image, caption in pairs:
        if image.name not in gold:
            continue
        record = captioner.record(image, caption)
        tokens, maps = record.target_tokens[:-1], captioner.region_weights(record)
        words = TokenWords.of(tokens)
        word_of_unit = words.words_of_units()
        for unit, box in gold[image.name]:
            if not 0 <= unit < len(word_of_unit):
                last = len(word_of_unit) - 1
                raise UserError(f"{image.name}: a region belongs to word {unit}, but the caption has words 0 to {last}")
            of_word = np.asarray(words.indices) == word_of_unit[unit]
            inside = _coverage(box, captioner.size, captioner.n_regions)
            word_maps = maps[:, :, : len(tokens)][:, :, of_word].mean(2)  # [layers, heads, rows, columns]
            shares.append((word_maps * inside).sum((-2, -1)))
            areas.append(inside.mean())
    if not shares:
        raise UserError("none of the gold regions belongs to these images; give the regions of the same test set")
    per_head = 100.0 * np.mean(shares, axis=0)
    if not per_head.size:
        raise UserError("this captioner has no attention over image regions; leave --regions out")
    return {
        "attention_on_region": float(per_head.mean()),
        "attention_best_head": float(per_head.max()),
        "area_of_region": 100.0 * float(np.mean(areas)),
    }


def _coverage(box: Box, size: int, n_regions: int) -> NDArray[np.float64]:
    """Return the fraction of each grid cell that lies in the box, [n_regions, n_regions], for an image of `size`."""
    edges = np.linspace(0, size, n_regions + 1)
    top, left, bottom, right = box

    def overlap(low: int, high: int) -> NDArray[np.float64]:
        inside = np.minimum(edges[1:], high) - np.maximum(edges[:-1], low)
        return np.clip(inside, 0, None) / (size / n_regions)

    return np.outer(overlap(top, bottom), overlap(left, right))
