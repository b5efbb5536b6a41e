"""Carrying tags, placeholders and unknown words from the source into the translation, guided by word alignment."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import tee

from regard.models.record import AttentionRecord
from regard.pipelines.translation import Candidate, Translation
from regard.pipelines.translator import Translator
from regard.text.fitted_text import FittedText
from regard.text.markup import TaggedText
from regard.text.words import is_unknown, join_pieces, word_indices


@dataclass(frozen=True)
class MarkupTransfer:
    """Which parts of the source are copied into the translation instead of being translated."""

    markup: bool = False
    """Tags and placeholders: removed before translation and put back afterwards"""
    unknown: bool = False
    """Words that the vocabulary does not cover"""

    def translate(
        self, translator: Translator, lines: Iterable[str], max_source: int | None = None, **options: object
    ) -> Iterator[Translation]:
        """Translate lines and carry markup and unknown words over; `options` are those of `Translator.stream`."""
        limit = translator.length_limit(max_source)
        parsed, remaining = tee(self._parse(line, limit.chars) for line in lines)
        plain_lines = (text.plain for text in parsed)
        translations = translator.stream(plain_lines, attention=True, max_source=limit.option, **options)  # type: ignore[arg-type]
        for tagged, translation in zip(remaining, translations, strict=False):
            candidates = translation.hypotheses
            if translation.problem is None:
                candidates = tuple(self.carry_over(tagged, c, translator, translation.fitted) for c in candidates)
            yield replace(translation, source=tagged.text, hypotheses=candidates)

    def _parse(self, line: str, max_chars: int) -> TaggedText:
        """Take the markup out of a line, unless the line is too long to be translated."""
        return TaggedText.parse(line) if self.markup and len(line) <= max_chars else TaggedText.untagged(line)

    def carry_over(
        self, tagged: TaggedText, candidate: Candidate, translator: Translator, fitted: FittedText | None = None
    ) -> Candidate:
        """Return a translation of the plain text, recorded with attention, with the markup put back in.

        `fitted` is the plain text as the model read it, if that is another.
        """
        fitted = fitted or FittedText(tagged.plain)
        record, source, words = candidate.attention, tagged.plain.split(), candidate.text.split()
        if record is None or not record.cross.size:  # an empty line, or a model without cross-attention
            return replace(candidate, text=tagged.restore(words, _resample(range(len(source)), len(words))))
        inner = words[fitted.n_before : len(words) - fitted.n_after]
        source_words = _source_words(record, translator, fitted, len(source))
        if self.unknown:
            inner, source_words = _copy_unknown(record, inner, source_words, source)
        words = [*words[: fitted.n_before], *inner, *words[len(words) - fitted.n_after :]]
        n_source = len(source)
        aligned = [
            *range(fitted.n_before),
            *_resample(source_words, len(inner)),
            *range(n_source - fitted.n_after, n_source),
        ]
        if self.unknown:
            candidate = replace(candidate, alignment=tuple(sorted((i, j) for j, i in enumerate(aligned))))
        return replace(candidate, text=tagged.restore(words, aligned))


def _source_words(record: AttentionRecord, translator: Translator, fitted: FittedText, n_source: int) -> list[int]:
    """Return the index of the source word that each target word is aligned with, out of `n_source` words."""
    one_per_word = translator.aligner.model_copy(update={"threshold": None})
    n_merged, n_read = len(record.merge_words().source_tokens), len(fitted.text.split())
    source_of = {j: i for i, j in one_per_word(record)}
    rescaled = (_rescale(source_of[j], n_merged, n_read) for j in sorted(source_of))
    return [min(fitted.source_word(i), n_source - 1) for i in rescaled]


def _copy_unknown(
    record: AttentionRecord, words: list[str], source_words: list[int], source: Sequence[str]
) -> tuple[list[str], list[int]]:
    """Replace unknown target words, and those aligned with unknown source words, by the source word.

    Consecutive copies of one source word become a single copy. Returns the words and their source words.
    """
    unknown_sources = _unknown_words(record.source_tokens, len(source))
    if not unknown_sources and not any(map(is_unknown, record.target_tokens)):
        return words, source_words
    new_words, new_sources = list[str](), list[int]()
    pieces_per_word = _pieces_per_word(record.target_tokens)
    if len(words) != len(pieces_per_word):
        words = [join_pieces(pieces) for pieces in pieces_per_word]
    for word, pieces, i in zip(words, pieces_per_word, source_words, strict=True):
        is_copy = any(map(is_unknown, pieces)) or i in unknown_sources
        if is_copy and new_sources and new_sources[-1] == i and new_words[-1] == source[i]:
            continue
        new_words.append(source[i] if is_copy else word)
        new_sources.append(i)
    return new_words, new_sources


def _pieces_per_word(tokens: Sequence[str]) -> list[list[str]]:
    groups: dict[int, list[str]] = {}
    for token, word in zip(tokens, word_indices(tokens), strict=True):
        if word >= 0:
            groups.setdefault(word, []).append(token)
    return list(groups.values())


def _unknown_words(tokens: Sequence[str], n_words: int) -> set[int]:
    """Return the indices, out of `n_words`, of words with a piece that the vocabulary does not have."""
    groups = _pieces_per_word(tokens)
    unknown = (i for i, pieces in enumerate(groups) if any(map(is_unknown, pieces)))
    return {_rescale(i, len(groups), n_words) for i in unknown}


def _resample(indices: Sequence[int], n: int) -> list[int]:
    """Return n of the indices at even distances, repeating some if there are fewer than n."""
    return [indices[_rescale(j, n, len(indices))] for j in range(n)]


def _rescale(i: int, n_from: int, n_to: int) -> int:
    """Map word i of `n_from` to one of `n_to` by its relative position.

    Used because words of the text and words merged from tokens are sometimes counted differently.
    """
    return i if n_from == n_to else min(n_to - 1, i * n_to // max(1, n_from))
