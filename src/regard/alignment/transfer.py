"""Carrying tags, placeholders and unknown words from the source into the translation, guided by word alignment."""

import html
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import tee

import numpy as np

from regard.alignment.from_attention import record_units
from regard.models.record import AttentionRecord
from regard.pipelines.translation import Candidate, Translation
from regard.pipelines.translator import Translator
from regard.text.fitted_text import FittedText
from regard.text.markup import TaggedText
from regard.text.units import split_units, touching_units, unit_spans
from regard.text.words import TokenWords, is_unknown, join_pieces


@dataclass(frozen=True)
class MarkupTransfer:
    """Which parts of the source are copied into the translation instead of being translated."""

    markup: bool = False
    """Tags and placeholders: removed before translation and put back afterwards"""
    unknown: bool = False
    """Words that the vocabulary does not cover"""

    def translate(
        self,
        translator: Translator,
        lines: Iterable[str],
        max_source: int | None = None,
        to: str | None = None,
        **options: object,
    ) -> Iterator[Translation]:
        """Translate lines and carry markup and unknown words over; `options` are those of `Translator.stream`."""
        limit = translator.length_limit(max_source)
        sources = (translator.directions.read_tag(line, to) for line in lines)
        parsed, remaining = tee((target_tag, self._parse(text, limit.chars)) for target_tag, text in sources)
        texts = (translator.directions.with_tag(text.plain, target_tag) for target_tag, text in parsed)
        translations = translator.stream(texts, attention=True, max_source=limit.option, **options)  # type: ignore[arg-type]
        for (_, tagged), translation in zip(remaining, translations, strict=False):
            if translation.problem is None:
                translation = self.carry_over(tagged, translation, translator)
            yield replace(translation, source=tagged.text)

    def _parse(self, line: str, max_chars: int) -> TaggedText:
        """Take the markup out of a line, unless the line is too long to be translated."""
        return TaggedText.parse(line) if self.markup and len(line) <= max_chars else TaggedText.untagged(line)

    def carry_over(self, tagged: TaggedText, translation: Translation, translator: Translator) -> Translation:
        """Return a translation of the plain text, recorded with attention, with the markup put back in."""
        if translation.sentences:
            aligned = [self._align_sentences(translation, translator)]
        else:
            source, fitted = split_units(tagged.plain), translation.fitted or FittedText(tagged.plain)
            aligned = [self._align(source, candidate, translator, fitted) for candidate in translation.hypotheses]
        candidates = zip(translation.hypotheses, aligned, strict=True)
        return replace(translation, hypotheses=tuple(self._restore(tagged, *pair) for pair in candidates))

    def tagged_translation(self, tagged: TaggedText, translation: Translation, translator: Translator) -> str:
        """Return the text of a translation with the markup put back in; without markup, with its spaces as they are."""
        if self.unknown or tagged.has_markup:
            return self.carry_over(tagged, translation, translator).text
        return html.escape(translation.text, quote=False) if tagged.is_html else translation.text

    def _restore(self, tagged: TaggedText, candidate: Candidate, aligned: "_AlignedWords") -> Candidate:
        last = len(split_units(tagged.plain)) - 1
        source_words = [min(i, last) for i in aligned.source_words]
        if self.unknown and aligned.words:
            candidate = replace(candidate, alignment=tuple(sorted((i, j) for j, i in enumerate(source_words))))
        return replace(candidate, text=tagged.restore(aligned.words, source_words, aligned.touching))

    def _align_sentences(self, translation: Translation, translator: Translator) -> "_AlignedWords":
        """Align the words of a text sentence by sentence. Words between sentences, such as "1.", are copies."""
        all_words, done = split_units(translation.text), 0
        words, source_words, touching = list[str](), list[int](), set[int]()
        for sentence, n_source, n_target in translation.placed_sentences():
            between = all_words[done:n_target]
            words += between
            source_words += range(n_source - len(between), n_source)
            fitted = sentence.fitted or FittedText(sentence.source)
            aligned = self._align(split_units(sentence.source), sentence.hypotheses[0], translator, fitted)
            touching |= {len(words) + j for j in aligned.touching}
            words += aligned.words
            source_words += [n_source + i for i in aligned.source_words]
            done = n_target + len(split_units(sentence.text))
        n_all = len(split_units(translation.source))
        source_words += range(n_all - len(all_words) + done, n_all)
        return _AlignedWords([*words, *all_words[done:]], source_words, frozenset(touching))

    def _align(
        self, source: Sequence[str], candidate: Candidate, translator: Translator, fitted: FittedText
    ) -> "_AlignedWords":
        """Align the words of one translation; `fitted` is its source as the model read it."""
        record, words, touching = candidate.attention, split_units(candidate.text), touching_units(candidate.text)
        n_words, n_source = len(words), len(source)
        if record is None or not record.cross.size:  # an empty line, or a model without cross-attention
            return _AlignedWords(words, _resample(range(n_source), n_words), touching)
        first, last = range(fitted.n_before), range(n_words - fitted.n_after, n_words)
        inner = words[fitted.n_before : n_words - fitted.n_after]
        source_words, kept = _source_words(record, translator, fitted, n_source), list(range(len(inner)))
        if self.unknown:
            inner, source_words, kept = _copy_unknown(record, inner, source_words, source, fitted)
        places = [*first, *(fitted.n_before + j for j in kept), *last]
        return _AlignedWords(
            [*words[: len(first)], *inner, *words[n_words - len(last) :]],
            [*first, *_resample(source_words, len(inner)), *range(n_source - fitted.n_after, n_source)],
            frozenset(j for j, place in enumerate(places) if place in touching),
        )


@dataclass(frozen=True)
class _AlignedWords:
    """The words of a translation, and the source word that each is aligned with"""

    words: list[str]
    source_words: list[int]
    touching: frozenset[int]
    """The words that follow another one without a space"""


def _source_words(record: AttentionRecord, translator: Translator, fitted: FittedText, n_source: int) -> list[int]:
    """Return the index of the source unit that each target unit is aligned with, out of `n_source` units.

    The units of a piece correspond in their order to those of the piece that it is aligned with.
    """
    one_per_word = translator.aligner.model_copy(update={"threshold": None})
    source_of = {j: i for i, j in one_per_word.word_links(record)}
    src_units, tgt_units = record_units(record)
    starts, n_read = np.cumsum([0, *src_units]).tolist(), len(unit_spans(fitted.text))
    read = (
        _rescale(starts[i] + _rescale(k, tgt_units[j], src_units[i]), starts[-1], n_read)
        for j, i in sorted(source_of.items())
        for k in range(tgt_units[j])
    )
    return [min(fitted.source_word(i), n_source - 1) for i in read]


def _copy_unknown(
    record: AttentionRecord, words: list[str], source_words: list[int], source: Sequence[str], fitted: FittedText
) -> tuple[list[str], list[int], list[int]]:
    """Replace unknown target words, and those aligned with unknown source words, by the source word.

    Consecutive copies of one source word become a single copy. Returns the words, their source words, and their places
    in `words` before.
    """
    unknown_sources = _unknown_words(record.source_tokens, fitted, len(source))
    if not unknown_sources and not any(map(is_unknown, record.target_tokens)):
        return words, source_words, list(range(len(words)))
    new_words, new_sources, kept = list[str](), list[int](), list[int]()
    pieces_per_unit = _pieces_per_unit(record.target_tokens)
    if len(words) != len(pieces_per_unit):
        if sum(record_units(record)[1]) != len(record.merge_words().target_tokens):
            return words, source_words, list(range(len(words)))  # pieces of several units cannot take the words' place
        words = [join_pieces(pieces) for pieces in pieces_per_unit]
    for j, (word, pieces, i) in enumerate(zip(words, pieces_per_unit, source_words, strict=True)):
        is_copy = any(map(is_unknown, pieces)) or i in unknown_sources
        if is_copy and new_sources and new_sources[-1] == i and new_words[-1] == source[i]:
            continue
        new_words.append(source[i] if is_copy else word)
        new_sources.append(i)
        kept.append(j)
    return new_words, new_sources, kept


def _pieces_per_unit(tokens: Sequence[str]) -> list[list[str]]:
    """Return the pieces of the word that each unit belongs to."""
    words = TokenWords.of(tokens)
    groups: list[list[str]] = [[] for _ in words.n_units]
    for token, word in zip(tokens, words.indices, strict=True):
        if word >= 0:
            groups[word].append(token)
    return [pieces for pieces, n in zip(groups, words.n_units, strict=True) for _ in range(n)]


def _unknown_words(tokens: Sequence[str], fitted: FittedText, n_words: int) -> set[int]:
    """Return the indices, out of `n_words`, of source units of words with a piece that the vocabulary does not have."""
    pieces_per_unit, n_read = _pieces_per_unit(tokens), len(unit_spans(fitted.text))
    unknown = (i for i, pieces in enumerate(pieces_per_unit) if any(map(is_unknown, pieces)))
    return {min(fitted.source_word(_rescale(i, len(pieces_per_unit), n_read)), n_words - 1) for i in unknown}


def _resample(indices: Sequence[int], n: int) -> list[int]:
    """Return n of the indices at even distances, repeating some if there are fewer than n; zeros if there are none."""
    indices = indices or [0]  # an output of special tokens has no words
    return [indices[_rescale(j, n, len(indices))] for j in range(n)]


def _rescale(i: int, n_from: int, n_to: int) -> int:
    """Map word i of `n_from` to one of `n_to` by its relative position.

    Used because words of the text and words merged from tokens are sometimes counted differently.
    """
    return i if n_from == n_to else min(n_to - 1, i * n_to // max(1, n_from))
