"""Texts fitted to what a model has seen in training: case and punctuation changed before translation, restored after.

A model that was trained on lower-case text knows "cat" but not "Cat" or "CAT"; one that never saw "!" cannot read it;
one that was trained on tokenised text knows "sat ?" but not "sat?".
"""

import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from regard.text.seen_words import SeenWords, first_word, replace_words, split_words
from regard.text.units import unit_spans

_MIN_TITLE = 3  # words of a headline
_LONG_WORD = 4  # letters; shorter words may be in lower case in a headline
_JOINERS = "\u200d\ufe0f"  # inside of emoji


@dataclass(frozen=True)
class FittedText:
    """A text as the model reads it, and what its translation gets back."""

    text: str
    before: str = ""
    """Punctuation at the beginning that the model does not know, with the space after it"""
    after: str = ""
    """Punctuation at the end that the model does not know, with the space before it"""
    upper: bool = False
    """Whether the source is all capitals"""
    capital: bool = False
    """Whether the source starts with a capital letter that the model does not see"""
    unknown: tuple[str, ...] = ()
    """Words that never occurred in training"""
    word_numbers: tuple[int, ...] = ()
    """For each word of `text`, the number of the source word that it is part of; empty if the words are the same"""
    tag: str = ""
    """The tag of the target language, which the model reads before `text`; it is no word of the source"""

    @classmethod
    def fit(cls, text: str, seen: SeenWords) -> "FittedText":
        """Fit a clean text to the words of the training data. A text like those in training stays as it is.

        >>> seen = SeenWords.count(["the green witch arrived", "the cat sat"])
        >>> fitted = FittedText.fit("The Cat sat!", seen)
        >>> fitted.text
        'the cat sat'
        >>> fitted.restore("le chat s'assit")
        "Le chat s'assit!"
        """
        is_title = _is_title(text, seen)
        if not is_title and all(map(seen.counts.__contains__, text.split())):  # the quick check that most texts pass
            return cls(text)
        words = split_words(text)
        if not is_title and all(word in seen for word in words) and seen.separate_marks.isdisjoint(words):
            return cls(text)
        before, body, after = _take_off_marks(text, seen)
        words = split_words(body)
        is_upper = _is_upper(words, seen)
        if is_upper or is_title:
            cased = replace_words(body, lambda word: _usual_form(word, seen, is_upper))
            cased = capitalise(cased) if seen.starts_with_capital else cased
        else:
            cased = replace_words(body, lambda word: _seen_form(word, seen))
        capital = not is_upper and first_word(body)[:1].isupper() and first_word(cased)[:1].islower()
        fitted, numbers = _separate_marks(cased, seen.separate_marks)
        return cls(fitted, before, after, is_upper, capital, seen.unknown(words), numbers)

    @classmethod
    def as_written(cls, text: str, seen: SeenWords | None) -> "FittedText":
        """Leave a text as it is."""
        return cls(text, unknown=seen.unknown(split_words(text)) if seen else ())

    @property
    def tagged_text(self) -> str:
        """The text with its tag in front; an empty text gets none"""
        return f"{self.tag} {self.text}" if self.tag and self.text else self.text

    def restore(self, translation: str) -> str:
        """Give a translation the case and the punctuation of the source."""
        if self.upper:
            translation = translation.upper()
        elif self.capital:
            translation = capitalise(translation)
        return f"{self.before}{translation}{self.after}".strip()

    @cached_property
    def n_before(self) -> int:
        """Number of words that `before` adds, as alignments count them"""
        return len(unit_spans(self.before + self.text)) - len(unit_spans(self.text))

    @cached_property
    def n_after(self) -> int:
        """Number of words that `after` adds"""
        return len(unit_spans(self.text + self.after)) - len(unit_spans(self.text))

    def source_word(self, i: int) -> int:
        """Return the number of the source word that contains word i of `text`."""
        return self.n_before + (self.word_numbers[i] if i < len(self.word_numbers) else i)

    def restore_links(self, links: Iterable[tuple[int, int]], n_target: int) -> tuple[tuple[int, int], ...]:
        """Return the links between the source and a restored translation.

        `links` are those between `text` and the `n_target` words that the model generated. Punctuation that is put back
        and is a word of its own is linked to itself.
        """
        n_source = self.word_numbers[-1] + 1 if self.word_numbers else len(unit_spans(self.text))
        marks = [(i, i) for i in range(self.n_before)]
        first = self.n_before + n_source, self.n_before + n_target
        marks += [(first[0] + i, first[1] + i) for i in range(self.n_after)]
        return tuple(sorted({*marks, *((self.source_word(i), j + self.n_before) for i, j in links)}))


def capitalise(text: str) -> str:
    """Return the text with a capital letter at the beginning of its first word.

    >>> capitalise("« l'été »")
    "« L'été »"
    """
    start = text.find(first_word(text))
    return text[:start] + text[start : start + 1].title() + text[start + 1 :]


def _is_title(text: str, seen: SeenWords) -> bool:
    """Whether this is a headline: its long words start with capitals, also those that do not inside of other texts."""
    words = text.split()
    if len(words) < _MIN_TITLE or not all(word[:1].isupper() for word in words if len(word) >= _LONG_WORD):
        return False  # most texts end here
    forms = [seen.usual_form(word) or "" for word in words[1:] if word[:1].isupper()]
    return sum(form[:1].islower() for form in forms) >= max(2, len(forms) / 2)


def _usual_form(word: str, seen: SeenWords, lower: bool) -> str:
    """Return the word in the form that is most frequent inside of texts; an unknown one as it is, or in lower case."""
    return seen.usual_form(word) or (word.lower() if lower else word)


def _is_upper(words: Sequence[str], seen: SeenWords) -> bool:
    """Whether these are at least two words in capitals that are not what the training data are like."""
    cased = [word for word in words if word.upper() != word.lower()]
    unseen = sum(word not in seen for word in cased)
    capitals = [word.replace("ß", "ẞ") for word in cased]  # ß is common among capitals
    return len(cased) >= 2 and all(word == word.upper() for word in capitals) and 2 * unseen > len(cased)


def _seen_form(word: str, seen: SeenWords) -> str:
    """Return the word as it was seen most often; an unknown word in lower case if the training data are."""
    if word in seen:
        return word
    return seen.usual_form(word) or (word if seen.is_cased else word.lower())


def _take_off_marks(text: str, seen: SeenWords) -> tuple[str, str, str]:
    """Split a text into unseen punctuation at its beginning, the rest, and unseen punctuation at its end."""
    end = len(text)
    while end and (text[end - 1] == " " or _is_unseen_mark(text[end - 1], seen)):
        end -= 1
    start = 0
    while start < end and (text[start] == " " or _is_unseen_mark(text[start], seen)):
        start += 1
    return text[:start], text[start:end], text[end:]


def _is_unseen_mark(character: str, seen: SeenWords) -> bool:
    """Whether this is a punctuation mark or symbol that never occurred in training."""
    if character in _JOINERS:
        return True
    is_mark = not character.isalnum() and unicodedata.category(character)[0] != "M"
    return is_mark and character not in seen


def _separate_marks(text: str, marks: Collection[str]) -> tuple[str, tuple[int, ...]]:
    """Put spaces around those punctuation marks at the beginning and end of words that had them in training.

    A full stop is separated at the end of the text only, and not from "u.s.". Returns the text and, if it has changed,
    the number of the former word that each word is part of.
    """
    pieces, numbers = list[str](), list[int]()
    words = text.split(" ")
    for number, word in enumerate(words):
        separate = marks if number == len(words) - 1 and word.find(".") == len(word) - 1 else set(marks) - {"."}
        start, end = 0, len(word)
        while end > 1 and word[end - 1] in separate:
            end -= 1
        while start < end - 1 and word[start] in separate:
            start += 1
        parts = [*word[:start], word[start:end], *word[end:]]
        pieces += parts
        numbers += [number] * len(parts)
    return (text, ()) if len(pieces) == len(words) else (" ".join(pieces), tuple(numbers))
