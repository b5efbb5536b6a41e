"""Texts fitted to what a model has seen in training: case and punctuation changed before translation, restored after.

A model that was trained on lower-case text knows "cat" but not "Cat" or "CAT"; one that never saw "!" cannot read it.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from regard.text.seen_words import SeenWords, first_word, replace_words, split_words

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

    @classmethod
    def fit(cls, text: str, seen: SeenWords) -> "FittedText":
        """Fit a clean text to the words of the training data. If all of its words have been seen, it stays as it is.

        >>> seen = SeenWords.count(["the green witch arrived", "the cat sat"])
        >>> fitted = FittedText.fit("The Cat sat!", seen)
        >>> fitted.text
        'the cat sat'
        >>> fitted.restore("le chat s'assit")
        "Le chat s'assit!"
        """
        words = split_words(text)
        if all(word in seen for word in words):
            return cls(text)
        before, body, after = _take_off_marks(text, seen)
        words = split_words(body)
        unknown = seen.unknown(words)
        if _is_upper(words, seen):
            fitted = replace_words(body, lambda word: seen.usual_forms.get(word.lower(), word.lower()))
            return cls(capitalise(fitted) if seen.starts_with_capital else fitted, before, after, True, False, unknown)
        fitted = replace_words(body, lambda word: _seen_form(word, seen))
        capital = first_word(body)[:1].isupper() and first_word(fitted)[:1].islower()
        return cls(fitted, before, after, False, capital, unknown)

    @classmethod
    def as_written(cls, text: str, seen: SeenWords | None) -> "FittedText":
        """Leave a text as it is."""
        return cls(text, unknown=seen.unknown(split_words(text)) if seen else ())

    def restore(self, translation: str) -> str:
        """Give a translation the case and the punctuation of the source."""
        if self.upper:
            translation = translation.upper()
        elif self.capital:
            translation = capitalise(translation)
        return f"{self.before}{translation}{self.after}".strip()

    def restore_links(
        self, links: Sequence[tuple[int, int]], n_source: int, n_target: int
    ) -> tuple[tuple[int, int], ...]:
        """Return the links between all words, given those between the `n_source` and `n_target` words that the model
        read and wrote: punctuation that is a word of its own is linked to itself.
        """
        n_before = len(self.before.split()) if self.before.endswith(" ") else 0
        n_after = len(self.after.split()) if self.after.startswith(" ") else 0
        marks = [(i, i) for i in range(n_before)]
        marks += [(n_before + n_source + i, n_before + n_target + i) for i in range(n_after)]
        return tuple(sorted([*marks, *((i + n_before, j + n_before) for i, j in links)]))


def capitalise(text: str) -> str:
    """Return the text with a capital letter at the beginning of its first word.

    >>> capitalise("« l'été »")
    "« L'été »"
    """
    start = text.find(first_word(text))
    return text[:start] + text[start : start + 1].title() + text[start + 1 :]


def _is_upper(words: Sequence[str], seen: SeenWords) -> bool:
    """Whether these are at least two words in capitals that are not what the training data are like."""
    cased = [word for word in words if word.upper() != word.lower()]
    unseen = sum(word not in seen for word in cased)
    return len(cased) >= 2 and all(word == word.upper() for word in cased) and 2 * unseen > len(cased)


def _seen_form(word: str, seen: SeenWords) -> str:
    """Return the word as it was seen most often; an unknown word in lower case if the training data are."""
    if word in seen:
        return word
    return seen.usual_forms.get(word.lower()) or (word if seen.is_cased else word.lower())


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
