"""What a translator need not understand is carried over by its alignment: markup, placeholders, unknown words."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import tee

from regard.models.record import AttentionRecord
from regard.pipelines.translator import Candidate, Translation, Translator
from regard.text.tags import TaggedText
from regard.text.words import is_unknown, join_pieces, word_indices


@dataclass(frozen=True)
class Transfer:
    """What is carried over from the source."""

    markup: bool = False
    """Tags and placeholders: taken out before, put back in after"""
    unknown: bool = False
    """Words that the model has no pieces for"""

    def translate(self, translator: Translator, lines: Iterable[str], **options: object) -> Iterator[Translation]:
        """`options` are those of Translator.stream"""
        sources, again = tee(TaggedText.parse(line) if self.markup else TaggedText.untagged(line) for line in lines)
        found = translator.stream((source.plain for source in sources), attention=True, **options)  # type: ignore[arg-type]
        for marked, translation in zip(again, found, strict=False):
            best = tuple(self.carried(marked, candidate, translator) for candidate in translation.hypotheses)
            yield replace(translation, source=marked.text, hypotheses=best)

    def carried(self, marked: TaggedText, candidate: Candidate, translator: Translator) -> Candidate:
        """The candidate, which has its attention, with what belongs into it"""
        record, source, words = candidate.attention, marked.plain.split(), candidate.text.split()
        if record is None or not record.cross.size:  # of an empty line, or a model that does not attend
            return replace(candidate, text=marked.restore(words, _spread(range(len(source)), len(words))))
        aligned = _sources(record, translator, len(source))
        if self.unknown:
            words, aligned = _with_copies(record, words, aligned, source)
            candidate = replace(candidate, alignment=tuple(sorted((i, j) for j, i in enumerate(aligned))))
        return replace(candidate, text=marked.restore(words, _spread(aligned, len(words))))


def _sources(record: AttentionRecord, translator: Translator, n_source: int) -> list[int]:
    """Of each target word, the number of the source word that it comes from, among `n_source`"""
    strongest = translator.aligner.model_copy(update={"threshold": None})
    known = len(record.merge_words().source_tokens)
    by_target = {j: i for i, j in strongest(record)}
    return [_stretched(by_target[j], n_source, known) for j in sorted(by_target)]


def _with_copies(
    record: AttentionRecord, words: list[str], aligned: list[int], source: Sequence[str]
) -> tuple[list[str], list[int]]:
    """Unknown words, and those that come from unknown ones, as they stand in the source; each of them once in a row"""
    groups = _grouped(record.target_tokens)
    strange = {_stretched(i, len(source), n) for i, n in _unknown(record.source_tokens)}
    if not strange and not any(map(is_unknown, record.target_tokens)):
        return words, aligned
    copied, kept = list[str](), list[int]()
    for group, i in zip(groups, aligned, strict=True):
        copies = any(map(is_unknown, group)) or i in strange
        if copies and kept and kept[-1] == i and copied[-1] == source[i]:
            continue
        copied.append(source[i] if copies else join_pieces(group))
        kept.append(i)
    return copied, kept


def _grouped(tokens: Sequence[str]) -> list[list[str]]:
    """The tokens of each word"""
    groups: dict[int, list[str]] = {}
    for token, word in zip(tokens, word_indices(tokens), strict=True):
        if word >= 0:
            groups.setdefault(word, []).append(token)
    return list(groups.values())


def _unknown(tokens: Sequence[str]) -> list[tuple[int, int]]:
    """(word, of how many): those with a piece that the vocabulary does not have"""
    groups = _grouped(tokens)
    return [(i, len(groups)) for i, group in enumerate(groups) if any(map(is_unknown, group))]


def _spread(numbers: Sequence[int], n: int) -> list[int]:
    """n of them, in their order"""
    return [numbers[_stretched(j, len(numbers), n)] for j in range(n)]


def _stretched(i: int, n: int, of: int) -> int:
    """Word i of `of` as one of n: where two ways to count words disagree, by its place"""
    return i if n == of else min(n - 1, i * n // max(1, of))
