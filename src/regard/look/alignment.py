"""Word alignments: read from cross-attention, and held against gold ones."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.data.corpus import read_lines
from regard.errors import UserError
from regard.models.record import AttentionRecord

Links = set[tuple[int, int]]
"""(source word, target word)"""


@dataclass(frozen=True)
class Gold:
    """The links of a sentence pair: `possible` ones may be found, `sure` ones, which are among them, should be."""

    sure: Links
    possible: Links


def word_alignment(record: AttentionRecord, layer: int | None = None) -> Links:
    """For each target word the source word with most of its attention, averaged over heads and layers (or of one)."""
    weights = word_weights(record, layer)
    if not weights.size:
        return set()
    return {(int(i), j) for j, i in enumerate(weights.argmax(1))}


def word_weights(record: AttentionRecord, layer: int | None = None) -> NDArray[np.float32]:
    """Cross-attention [target words, source words]: summed over a source word's pieces, mean over a target word's.

    Special tokens belong to no word, so that a row may sum to less than one.
    """
    if not record.cross.size:
        return np.zeros((0, 0), dtype=np.float32)
    weights: NDArray[np.float32] = record.only(layer).mean().words().cross[0, 0]
    return weights


def error_rate(found: Iterable[Links], gold: Iterable[Gold]) -> float:
    """AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|) over all sentences (Och & Ney 2003); 0 is perfect."""
    hits = total = 0
    for links, right in zip(found, gold, strict=True):
        hits += len(links & right.sure) + len(links & right.possible)
        total += len(links) + len(right.sure)
    return 1.0 - hits / total if total else 0.0


def read_alignments(path: Path) -> list[Gold]:
    """A line a pair: `0-0 1-2` are sure links, source-target from 0; `1?2` is a possible one."""
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    rows = []
    for number, line in enumerate(read_lines(path), start=1):
        sure, possible = Links(), Links()
        for link in line.decode("utf-8", "replace").split():
            i, mark, j = link.partition("?" if "?" in link else "-")
            if not (i.isdecimal() and j.isdecimal()):
                raise UserError(f"{path}, line {number:,}: '{link}' is no link; write source-target as in 0-0 1-2")
            (possible if mark == "?" else sure).add((int(i), int(j)))
        rows.append(Gold(sure, possible | sure))
    return rows

