"""What the recipe `auto` needs to know about a corpus."""

from dataclasses import dataclass

from regard.data.parallel_corpus import ParsedCorpus
from regard.text.units import LengthUnit, count_units, length_unit

_BLOCKS, _BLOCK = 20, 1_000  # blocks of the sample, and pairs in each
_CHARACTERS_PER_WORD = 2.0  # in scripts without spaces, where words are short


@dataclass(frozen=True)
class CorpusFacts:
    """The size of a corpus; words are estimated from a sample of at most 20,000 pairs."""

    pairs: int
    source_words: int
    target_words: int
    target_unit: LengthUnit = "words"
    """characters: the target is in a script without spaces"""

    @property
    def words_per_target(self) -> float:
        return self.target_words / max(1, self.pairs)

    def describe(self) -> str:
        about = "about " if self.pairs > _BLOCKS * _BLOCK or self.target_unit == "characters" else ""
        return f"{self.pairs:,} pairs with {about}{self.target_words:,} target words"


def measure_corpus(corpus: ParsedCorpus) -> CorpusFacts:
    """Count the pairs and words of a corpus."""
    texts = [text for rows in measured_rows(len(corpus)) for text in corpus.texts.slice(2 * rows.start, 2 * rows.stop)]
    return facts_of(len(corpus), texts)


def measured_rows(n: int) -> list[range]:
    """Return the pairs to look at in a corpus of n pairs."""
    return [range(start, min(start + _BLOCK, n)) for start in range(0, n, max(_BLOCK, n // _BLOCKS))]


def facts_of(n: int, texts: list[str]) -> CorpusFacts:
    """Return the facts about n pairs of which some are known: source, target, source, target …"""
    sources, targets = texts[::2], texts[1::2]
    factor = n / max(1, len(sources))
    unit = length_unit(targets)
    return CorpusFacts(n, round(factor * _count_words(sources)), round(factor * _count_words(targets)), unit)


def _count_words(texts: list[str]) -> float:
    unit = length_unit(texts)
    count = sum(count_units(text, unit) for text in texts)
    return count if unit == "words" else count / _CHARACTERS_PER_WORD
