"""Annotates terms in the sources of training pairs, so that a model learns to follow annotations."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from regard.config import Config
from regard.data.word_alignments import Links
from regard.text.seen_words import SeenWords
from regard.text.term_annotation import AnnotatedSpan, annotate
from regard.text.units import unit_spans

_N_FREQUENT = 100  # most frequent words of the sources, with which no term starts or ends
_FREQUENT_SHARE = 20  # at most one word in 20 is frequent


class GlossaryConfig(Config):
    """Training on annotated terms, which needs word alignments."""

    share: float = Field(0.0, ge=0.0, le=1.0)
    """Share of the pairs in which terms are annotated, others in each epoch; 0: off."""
    max_terms: int = Field(3, ge=1, le=100)
    """The most terms per pair; at least one."""
    max_words: int = Field(3, ge=1, le=100)
    """Words of a term and of its target at most."""
    other_targets: float = Field(0.0, ge=0.0, le=1.0)
    """Share of the terms whose target is replaced by another word, in the annotation and in the target side: the model
    learns to follow annotations that it would not have chosen itself."""


class AlignedSpan(NamedTuple):
    """Neighbouring source words and the neighbouring target words that are their translation: first and end of each"""

    src_first: int
    src_end: int
    tgt_first: int
    tgt_end: int


@dataclass(frozen=True)
class TermAnnotator:
    """Annotates sources with terms that the alignment of words gives; one of the modifiers of an epoch."""

    config: GlossaryConfig
    links: NDArray[np.int32]
    """[links, 2] of (source word, target word), for the pairs of a store one after the other"""
    ends: NDArray[np.int64]
    """How many links there are up to the end of each pair, starting with 0"""
    frequent: Collection[str]
    """Words with which no term starts or ends, in lower case"""
    other_words: Sequence[str] = ()
    """Target words for `other_targets`"""

    @property
    def probability(self) -> float:
        return self.config.share

    def annotate(self, row: int, src: str, tgt: str, random: Random) -> tuple[str, str]:
        """Return a pair with one or more terms annotated in its source, if it has any."""
        links = {(int(i), int(j)) for i, j in self.links[self.ends[row] : self.ends[row + 1]]}
        src_words, tgt_words = unit_spans(src), unit_spans(tgt)
        found = aligned_spans(links, len(src_words), len(tgt_words), self.config.max_words)
        terms = [span for span in found if self._is_term(span, src, tgt, src_words, tgt_words)]
        random.shuffle(terms)
        chosen = _without_overlaps(terms, random.randint(1, self.config.max_terms))
        spans = list[AnnotatedSpan]()
        new_targets = dict[tuple[int, int], str]()
        for span in sorted(chosen):
            start, end = tgt_words[span.tgt_first][0], tgt_words[span.tgt_end - 1][1]
            target = tgt[start:end]
            if self.config.other_targets and random.random() < self.config.other_targets:
                target = new_targets[start, end] = random.choice(self.other_words)
            spans.append(AnnotatedSpan(src_words[span.src_first][0], src_words[span.src_end - 1][1], target))
        return annotate(src, spans), _replace_spans(tgt, new_targets)

    def _is_term(
        self,
        span: AlignedSpan,
        src: str,
        tgt: str,
        src_words: Sequence[tuple[int, int]],
        tgt_words: Sequence[tuple[int, int]],
    ) -> bool:
        """Whether both sides begin and end with a letter or digit, and the source with words that are not frequent."""
        ends = [src[slice(*src_words[i])] for i in (span.src_first, span.src_end - 1)]
        tgt_ends = [tgt[slice(*tgt_words[j])] for j in (span.tgt_first, span.tgt_end - 1)]
        is_clean = all(word[0].isalnum() and word[-1].isalnum() for word in (*ends, *tgt_ends))
        return is_clean and not any(word.lower() in self.frequent for word in ends)


def _replace_spans(text: str, new: Mapping[tuple[int, int], str]) -> str:
    """Return a text with the characters from start to end replaced, for each (start, end)."""
    for (start, end), part in sorted(new.items(), reverse=True):
        text = text[:start] + part + text[end:]
    return text


def rare_words(words: SeenWords) -> list[str]:
    """Return the words of a language that may be targets of terms: those of letters that are not frequent."""
    frequent = frequent_words(words)
    return [word for word in words.counts if word.isalpha() and word.lower() not in frequent]


def frequent_words(words: SeenWords) -> set[str]:
    """Return the words that are too frequent to be terms, in lower case."""
    n = min(_N_FREQUENT, len(words.counts) // _FREQUENT_SHARE)
    return {word.lower() for word in islice(words.counts, n)}


def aligned_spans(links: Links, n_src: int, n_tgt: int, max_words: int) -> list[AlignedSpan]:
    """Return the spans of up to `max_words` words on both sides that are linked to each other and to nothing else.

    The first and the last word of each side have a link.
    """
    of_src: dict[int, list[int]] = {}
    of_tgt: dict[int, list[int]] = {}
    for i, j in links:
        if i < n_src and j < n_tgt:
            of_src.setdefault(i, []).append(j)
            of_tgt.setdefault(j, []).append(i)
    spans = []
    for first in sorted(of_src):
        for last in range(first, min(first + max_words, n_src)):
            if last not in of_src:
                continue
            targets = [j for i in range(first, last + 1) for j in of_src.get(i, ())]
            tgt_first, tgt_last = min(targets), max(targets)
            sources = (i for j in range(tgt_first, tgt_last + 1) for i in of_tgt.get(j, ()))
            if tgt_last - tgt_first < max_words and all(first <= i <= last for i in sources):
                spans.append(AlignedSpan(first, last + 1, tgt_first, tgt_last + 1))
    return spans


def _without_overlaps(spans: Sequence[AlignedSpan], n: int) -> list[AlignedSpan]:
    """Return the first n of the spans that do not share a source word with one before."""
    chosen: list[AlignedSpan] = []
    for span in spans:
        if len(chosen) < n and all(
            span.src_end <= other.src_first or other.src_end <= span.src_first for other in chosen
        ):
            chosen.append(span)
    return chosen
