"""The words that a model has seen in training, with their counts."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import islice
from typing import NamedTuple

from regard.text.units import UNSPACED

MAX_WORDS = 200_000
"""Words that are kept, the most frequent ones"""
_BLOCK = 1_000  # texts counted at a time
_MAX_COUNTED = 1_000_000  # different words that are counted; beyond that, the rarer half is dropped
_TOUCHING = re.compile(r"(?<=\S)[^\w\s]|[^\w\s](?=\S)")
_SEPARATE_SHARE = 0.05  # of its occurrences, in which a mark that is written separately may touch another character
_CASED_SHARE = 0.01  # of all words; a text with fewer upper-case letters is lower-cased text
_LAST_MARK = 0x1F000  # there are no combining marks after this, except for selectors of variants


def split_words(text: str) -> list[str]:
    """Split a text into words: runs of letters, digits and combining marks, or one other character that is no space.

    In scripts that are written without spaces, each character is a word.

    >>> split_words("Don't stop, 2nd 猫です!")
    ['Don', "'", 't', 'stop', ',', '2nd', '猫', 'で', 'す', '!']
    """
    return _word_pattern().findall(text)


@cache
def _word_pattern() -> re.Pattern[str]:
    marks = _ranges([c for c in range(0x300, _LAST_MARK) if unicodedata.category(chr(c))[0] == "M"])
    letter = rf"[^\W_{UNSPACED}]"
    return re.compile(rf"{letter}+(?:[{marks}]+{letter}*)*|[{UNSPACED}][{marks}]*|\S")


def _ranges(codes: Sequence[int]) -> str:
    """Write increasing code points as ranges for a regular expression, which is faster than one by one."""
    starts = [code for code, before in zip(codes, (-1, *codes), strict=False) if code != before + 1]
    ends = [code for code, after in zip(codes, (*codes[1:], -1), strict=True) if code + 1 != after]
    return "".join(f"{chr(start)}-{chr(end)}" for start, end in zip(starts, ends, strict=True))


def word_spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each word of a text."""
    return [match.span() for match in _word_pattern().finditer(text)]


def replace_words(text: str, replace: Callable[[str], str]) -> str:
    """Return the text with each word replaced."""
    return _word_pattern().sub(lambda match: replace(match.group()), text)


def first_word(text: str) -> str:
    """Return the first word with a letter or a digit; empty if there is none."""
    return next(filter(has_letter, (match.group() for match in _word_pattern().finditer(text))), "")


def has_letter(word: str) -> bool:
    """Whether the word has a letter or a digit, and is not a punctuation mark or a symbol."""
    return any(map(str.isalnum, word))


def fold_word(word: str) -> str:
    """Return what all spellings of a word have in common: ß is ss, İ and ı are i, accents may be separate characters.

    >>> fold_word("STRASSE") == fold_word("Straße"), fold_word("IŞIK") == fold_word("ışık"), fold_word("İstanbul")
    (True, True, 'istanbul')
    """
    if word.isascii():
        return word.lower()
    return unicodedata.normalize("NFC", word.casefold().replace("i\u0307", "i").replace("ı", "i"))


class WordCount(NamedTuple):
    """How often a word occurs"""

    inside: int
    """Not as the first word of a text"""
    first: int
    """As the first word of a text"""
    touching: int
    """Punctuation: without a space before or after it"""


@dataclass(frozen=True)
class SeenWords:
    """Words of the training sources, and how often they occur."""

    counts: dict[str, WordCount]
    """The most frequent words first"""

    @classmethod
    def count(cls, texts: Iterable[str]) -> "SeenWords":
        """Count the words of many texts, and keep the most frequent ones."""
        counter, remaining = WordCounter(), iter(texts)
        while block := list(islice(remaining, _BLOCK)):
            counter.add(Counter(" ".join(block).split()), count_first_words(block))
        return counter.total()

    @classmethod
    def from_bytes(cls, content: bytes) -> "SeenWords":
        """Read what `to_bytes` wrote; anything else is a ValueError."""
        fields = content.decode("utf-8").replace("\n", "\t").split("\t")
        if fields.pop() or len(fields) % 4:
            raise ValueError("a line has not four fields")
        inside, first, touching = (map(int, fields[column::4]) for column in (1, 2, 3))
        return cls(dict(zip(fields[::4], map(WordCount, inside, first, touching), strict=True)))

    def to_bytes(self) -> bytes:
        """Return one line per word: the word and its counts, separated by tabs."""
        return "".join("\t".join(map(str, (word, *count))) + "\n" for word, count in self.counts.items()).encode()

    def with_earlier(self, earlier: "SeenWords") -> "SeenWords":
        """Return these words and those of earlier training, for a model that was trained further.

        Words that occur here keep their counts, which describe the text that the model expects now. Counts of the
        others are reduced, so that in total they count at most as much as the words of this text.
        """
        ours, theirs = (sum(n.inside + n.first for n in words.counts.values()) for words in (self, earlier))
        share = min(1.0, ours / max(1, theirs))
        others = {
            word: WordCount(*(math.ceil(share * n) for n in count))
            for word, count in earlier.counts.items()
            if word not in self.counts
        }
        kept = dict(islice(others.items(), max(0, MAX_WORDS - len(self.counts))))
        return SeenWords({**self.counts, **kept})

    def __contains__(self, word: object) -> bool:
        return word in self.counts

    @cached_property
    def usual_forms(self) -> dict[str, str]:
        """Lower-case word → the form that is most frequent inside texts, where no capital is due to the position

        Words that are spelt differently in capitals, such as Straße and STRASSE, have a second entry.
        """
        forms: dict[str, str] = {}
        words = sorted(self.counts, key=lambda word: -self.counts[word].inside)
        for key in (str.lower, fold_word):
            for word in words:
                forms.setdefault(key(word), word)
        return forms

    def usual_form(self, word: str) -> str | None:
        """Return the form of a word that is most frequent inside texts; None if it occurs in no casing."""
        return self.usual_forms.get(word.lower()) or self.usual_forms.get(fold_word(word))

    @cached_property
    def is_cased(self) -> bool:
        """Whether the training text has upper-case letters, apart from some noise"""
        n_words = [(count.inside + count.first, word != word.lower()) for word, count in self.counts.items()]
        return sum(n for n, has_upper in n_words if has_upper) >= _CASED_SHARE * max(1, sum(n for n, _ in n_words))

    @cached_property
    def starts_with_capital(self) -> bool:
        """Whether most training texts start with an upper-case letter"""
        firsts = [(word[0], count.first) for word, count in self.counts.items() if count.first]
        upper, lower = (sum(n for c, n in firsts if test(c)) for test in (str.isupper, str.islower))
        return upper > lower

    @cached_property
    def separate_marks(self) -> frozenset[str]:
        """Punctuation that has spaces around it, as in text that was tokenised before training"""
        marks = ((word, count) for word, count in self.counts.items() if not has_letter(word))
        return frozenset(w for w, n in marks if n.touching <= _SEPARATE_SHARE * (n.inside + n.first))

    def unknown(self, words: Iterable[str]) -> tuple[str, ...]:
        """Return those of the words that do not occur in any casing, in order and without repetitions."""
        unseen = (word for word in words if word not in self.counts and self.usual_form(word) is None)
        return tuple(dict.fromkeys(unseen))


def count_first_words(texts: Sequence[str]) -> Counter[str]:
    """Count the first words of texts."""
    pieces = Counter(text.partition(" ")[0] for text in texts)
    words = {piece: first_word(piece) for piece in pieces}
    counts = Counter[str]()
    for piece, n in pieces.items():
        if words[piece]:
            counts[words[piece]] += n
    counts.update(first_word(text) for text in texts if not words[text.partition(" ")[0]])
    return counts


class WordCounter:
    """Counts words in what spaces separate; equal pieces are split into words only once."""

    def __init__(self) -> None:
        self.pieces = Counter[str]()
        self.words = Counter[str]()
        self.first = Counter[str]()
        self.touching = Counter[str]()

    def add(self, pieces: Mapping[str, int], first: Mapping[str, int]) -> None:
        """Add pieces and first words of texts, with their counts."""
        self.pieces.update(pieces)
        self.first.update(first)
        if len(self.pieces) > _MAX_COUNTED:
            self._split()

    def total(self) -> SeenWords:
        """Return the most frequent words; equally frequent ones by alphabet, lower case first."""
        self._split()
        order = sorted(self.words.items(), key=lambda item: (-item[1], item[0].swapcase(), item[0]))
        first, touching = self.first, self.touching
        return SeenWords({w: WordCount(max(0, n - first[w]), first[w], touching[w]) for w, n in order[:MAX_WORDS]})

    def _split(self) -> None:
        by_count: dict[int, list[str]] = {}
        for piece, n in self.pieces.items():
            by_count.setdefault(n, []).append(piece)
        for n, pieces in by_count.items():
            joined = " ".join(pieces)
            for counter, words in ((self.words, split_words(joined)), (self.touching, _TOUCHING.findall(joined))):
                for word, k in Counter(words).items():
                    counter[word] += n * k
        self.pieces.clear()
        self._forget()

    def _forget(self) -> None:
        """Forget the rarer half of too many words."""
        if len(self.words) > _MAX_COUNTED:
            self.words = Counter(dict(self.words.most_common(_MAX_COUNTED // 2)))
            self.first = Counter({word: n for word, n in self.first.items() if word in self.words})
