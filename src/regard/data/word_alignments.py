"""Word alignments: files with one line of links such as `0-0 1-2` per pair, and targets for guided attention."""

import re
from array import array
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice, repeat
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.data_file import DataFile, fingerprint
from regard.data.parallel_corpus import ParsedCorpus
from regard.errors import UserError
from regard.paths import check_input_file
from regard.text.ragged import Ragged
from regard.text.tokenizer import TokenizerPair
from regard.text.vocab import PAD
from regard.text.words import WordFinder

_MAX_DIGITS = 6  # no sentence has a million words
_NO_WORD_HAS = 10**_MAX_DIGITS  # an index that is too large for any word
_BLOCK = 256  # lines that are parsed at once if all are well formed
_WELL_FORMED = re.compile(rb"(?:\s|\d{1,6}[-?]\d{1,6}(?=\s))*+")
Links = set[tuple[int, int]]
"""(source word, target word), counted from 0 over the units of `regard.text.units`"""


@dataclass(frozen=True)
class GoldAlignment:
    """The gold links of a sentence pair: sure ones should be found, possible ones may be. Sure links are possible."""

    sure: Links
    possible: Links


def read_alignments(path: Path, n: int | None = None) -> list[GoldAlignment]:
    """Read one line of links per pair: `0-0` is a sure link from source word 0 to target word 0, `1?2` a possible one.

    With `n`, the file must have exactly n lines.
    """
    check_input_file(path)
    rows = [_parse_line(line, path, number) for number, line in enumerate(DataFile(path).lines(), start=1)]
    if n is not None:
        _check_count(path, len(rows), n)
    return rows


def _parse_line(line: bytes, path: Path, number: int) -> GoldAlignment:
    sure, possible = Links(), Links()
    for link in line.decode("utf-8", "replace").split():
        i, separator, j = link.partition("?" if "?" in link else "-")
        if not (i.isdecimal() and j.isdecimal() and max(len(i), len(j)) <= _MAX_DIGITS):
            raise UserError(f"{path}, line {number:,}: '{link}' is not a link; write source-target as in 0-0 1-2")
        (possible if separator == "?" else sure).add((int(i), int(j)))
    return GoldAlignment(sure, possible | sure)


def _check_count(path: Path, n_lines: int, n: int) -> None:
    if n_lines != n:
        raise UserError(f"{path} has {n_lines:,} lines for {n:,} pairs; give one line per pair")


def _read_links(file: DataFile) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the links of all lines [links, 2], and how many there are up to the end of each line, starting with 0."""
    links, counts, lines = array("i"), array("q", [0]), file.lines()
    while block := list(islice(lines, _BLOCK)):
        content = b"\n".join(block) + b"\n"
        if _WELL_FORMED.fullmatch(content):
            content = content.replace(b"?", b"-")
            counts.extend(map(bytes.count, content.split(b"\n")[:-1], repeat(b"-")))
            if content.strip():
                numbers = np.fromstring(content.replace(b"-", b" ").decode(), dtype=np.int32, sep=" ")
                links.frombytes(numbers.tobytes())
            continue
        for number, line in enumerate(block, start=len(counts)):
            possible = sorted(_parse_line(line, file.path, number).possible)
            counts.append(len(possible))
            links.extend(chain.from_iterable(possible))
    return np.asarray(links).reshape(-1, 2), np.cumsum(counts)


@dataclass(frozen=True)
class AlignmentGuide:
    """The attention that guided alignment teaches: which source tokens each target token of a pair is linked to."""

    links: NDArray[np.int32]
    """[links, 2] of (source word, target word), for the pairs of a store one after the other"""
    ends: NDArray[np.int64]
    """How many links there are up to the end of each pair, starting with 0"""
    tokenizers: TokenizerPair
    fingerprint: str

    @classmethod
    def open(
        cls, path: Path, corpus: ParsedCorpus, numbers: NDArray[np.int64], tokenizers: TokenizerPair
    ) -> "AlignmentGuide":
        """Read the alignments of a corpus; `numbers` are the indices of its pairs that are in the store."""
        check_input_file(path)
        file = DataFile(path)
        links, ends = _read_links(file)
        _check_count(path, len(ends) - 1, corpus.report.lines)
        used = Ragged.gather(links, ends, np.asarray(corpus.lines)[numbers] - 1)
        ends = np.concatenate([[0], np.cumsum(used.lengths)])
        return cls(used.ids, ends, tokenizers, fingerprint([file], "links"))

    def __call__(self, rows: NDArray[np.int64], src: Ragged, tgt: Ragged, shape: tuple[int, int, int]) -> Tensor:
        """Return the attention of each target token as [B, T, S] = `shape`.

        It is distributed evenly over the tokens of the linked source words. Tokens without a link, and tokens that
        are not part of a word, have a row of zeros; so have the tokens of pairs that are not in the store, because
        their texts were changed.
        """
        src_words, tgt_words = _words(self._finders[0], src, shape[0::2]), _words(self._finders[1], tgt, shape[:2])
        n_stored = len(self.ends) - 1
        ends = np.append(self.ends, self.ends[-1])  # the last pair has no links
        links = Ragged.gather(self.links, ends, np.minimum(rows, n_stored))
        pairs = np.repeat(np.arange(len(rows)), links.lengths)
        i, j = (
            _word_of_unit(find, side, pairs, units)
            for find, side, units in zip(self._finders, (src, tgt), links.ids.T, strict=True)
        )
        inside = (i <= src_words.max(1)[pairs]) & (j <= tgt_words.max(1)[pairs])
        # The last row and column are for tokens outside words, whose index is −1, and stay zero.
        linked = np.zeros((shape[0], tgt_words.max() + 2, src_words.max() + 2), dtype=np.float32)
        linked[pairs[inside], j[inside], i[inside]] = 1.0
        weights = linked[np.arange(shape[0])[:, None, None], tgt_words[:, :, None], src_words[:, None, :]]
        return torch.from_numpy(weights / np.maximum(weights.sum(2, keepdims=True), 1.0))

    @cached_property
    def _finders(self) -> tuple[WordFinder, WordFinder]:
        src = WordFinder(self.tokenizers.src)
        return src, src if self.tokenizers.joint else WordFinder(self.tokenizers.tgt)


def _word_of_unit(
    find: WordFinder, side: Ragged, texts: NDArray[np.int64], units: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Return the word of each unit, of which units[k] belongs to texts[k]; one that does not exist is in no text."""
    words = units.copy()
    for text, found in find.without_spaces(side.matrix(PAD)).items():
        of_text, word_of = texts == text, np.append(found.words_of_units(), _NO_WORD_HAS)
        words[of_text] = word_of[np.minimum(units[of_text], len(word_of) - 1)]
    return words


def _words(find: WordFinder, side: Ragged, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the index of each token's word [rows, tokens] = `shape`; −1 for tokens of no word and padding."""
    found = find(side.matrix(PAD))
    words = np.full(shape, -1)
    words[: found.shape[0], : found.shape[1]] = np.where(np.arange(found.shape[1]) < side.lengths[:, None], found, -1)
    return words
