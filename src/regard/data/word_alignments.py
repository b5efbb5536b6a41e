"""Word alignments on disk, a line a pair: `0-0 1-2`; and as what a model's attention should be."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batch import Ragged
from regard.data.corpus import Corpus, CorpusReport, fingerprint_files, read_lines
from regard.errors import UserError
from regard.text.tokenizer import Tokenizer, TokenizerPair
from regard.text.words import word_indices

_DIGITS = 6  # no sentence has a million words
Links = set[tuple[int, int]]
"""(source word, target word), from 0"""


@dataclass(frozen=True)
class GoldAlignment:
    """The links of a sentence pair: `possible` ones may be found, `sure` ones, which are among them, should be."""

    sure: Links
    possible: Links


def read_alignments(path: Path, n: int | None = None) -> list[GoldAlignment]:
    """A line a pair: `0-0 1-2` are sure links, source-target from 0; `1?2` is a possible one. There must be `n`."""
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    rows = []
    for number, line in enumerate(read_lines(path), start=1):
        sure, possible = Links(), Links()
        for link in line.decode("utf-8", "replace").split():
            i, mark, j = link.partition("?" if "?" in link else "-")
            if not (i.isdecimal() and j.isdecimal() and max(len(i), len(j)) <= _DIGITS):
                raise UserError(f"{path}, line {number:,}: '{link}' is no link; write source-target as in 0-0 1-2")
            (possible if mark == "?" else sure).add((int(i), int(j)))
        rows.append(GoldAlignment(sure, possible | sure))
    if n is not None and len(rows) != n:
        raise UserError(f"{path} has {len(rows):,} lines for {n:,} pairs; give one a pair")
    return rows


@dataclass(frozen=True)
class AlignmentGuide:
    """Where each target token of a corpus's pairs should look."""

    links: Sequence[NDArray[np.int32]]
    """Of each pair of a store, [links, 2]: (source word, target word)"""
    tokenizers: TokenizerPair
    fingerprint: str

    @classmethod
    def open(
        cls, path: Path, corpus: Corpus, numbers: NDArray[np.int64], tokenizers: TokenizerPair
    ) -> "AlignmentGuide":
        """`numbers` says which of the corpus's clean pairs each pair of the store is."""
        report, lines = CorpusReport(), []
        for _ in corpus.pairs(report):
            lines.append(report.lines - 1)
        gold = read_alignments(path, report.lines)
        links = [np.asarray(sorted(gold[lines[n]].possible), dtype=np.int32).reshape(-1, 2) for n in numbers]
        return cls(links, tokenizers, fingerprint_files([path], "links"))

    def __call__(self, rows: NDArray[np.int64], src: Ragged, tgt: Ragged, shape: tuple[int, int, int]) -> Tensor:
        """[B, T, S] of `shape`: each target token's attention, shared evenly among the pieces of its source words.

        A token that is linked to nothing, and one that is no word, has a row of zeros.
        """
        wanted = torch.zeros(shape)
        sides = zip(rows.tolist(), src.lists(), tgt.lists(), strict=True)
        for b, (row, source, target) in enumerate(sides):
            of_source, of_target = _words(self.tokenizers.src, source), _words(self.tokenizers.tgt, target)
            i, j = self.links[row].T
            inside = (i < max(of_source, default=-1) + 1) & (j < max(of_target, default=-1) + 1)
            matrix = np.zeros((max(of_target, default=0) + 2, max(of_source, default=0) + 2), dtype=np.float32)
            matrix[j[inside], i[inside]] = 1.0  # the last row and column, −1, are of what is no word
            tokens = matrix[of_target][:, of_source]
            tokens /= np.maximum(tokens.sum(1, keepdims=True), 1.0)
            wanted[b, : len(target), : len(source)] = torch.from_numpy(tokens)
        return wanted


def _words(tokenizer: Tokenizer, ids: Sequence[int]) -> list[int]:
    return word_indices(tokenizer.tokens(ids))
