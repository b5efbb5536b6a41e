"""Glossaries: how terms are to be translated, and where they occur in texts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal
from unicodedata import category, normalize

from regard.data.data_file import read_lines
from regard.errors import UserError
from regard.paths import check_input_file
from regard.text.clean import clean
from regard.text.fitted_text import capitalise
from regard.text.seen_words import fold_word, has_letter, word_spans

GlossaryMode = Literal["hard", "soft"]
"""For translations that lack terms: soft: a model trained for it reads them in its source; hard: the search then finds
outputs that contain those that are still missing"""

_MAX_CHARS = 500  # of a term
_ALTERNATIVES = "|"
_APOSTROPHES = str.maketrans("’‘´`", "'" * 4)  # the same in terms and texts; some tokenizers change them


@dataclass(frozen=True)
class GlossaryTerm:
    """A term and its accepted translations, the preferred one first"""

    source: str
    targets: tuple[str, ...]

    @classmethod
    def parse(cls, source: str, target: str) -> "GlossaryTerm":
        """Make a term from its source and from targets that are separated by |; refuse what cannot be one.

        >>> GlossaryTerm.parse("house", "Haus | Hauses")
        GlossaryTerm(source='house', targets=('Haus', 'Hauses'))
        """
        source, target = clean(source), clean(target)
        for side, text in (("source", source), ("target", target)):
            if not has_letter(text):
                raise UserError(f"the {side} term is empty" if not text else f"'{text}' has no letter or digit")
            if any(category(character) == "Cc" for character in text):
                raise UserError(f"the {side} term {text!r} has a control character; delete it")
            if len(text) > _MAX_CHARS:
                raise UserError(f"the {side} term has {len(text):,} characters; at most {_MAX_CHARS} are allowed")
        targets = tuple(dict.fromkeys(part.strip() for part in target.split(_ALTERNATIVES)))
        if not all(map(has_letter, targets)):
            raise UserError(f"'{target}' has an empty target; separate targets by ' {_ALTERNATIVES} '")
        return cls(source, targets)

    def count_in(self, text: "str | TextWords", is_cased: bool = False) -> int:
        """Return how often a text has one of the targets, as whole words.

        If `is_cased`, they must be written as in the glossary, except that the first word may have a capital.
        """
        found = TextWords.of(text) if isinstance(text, str) else text
        words, forms = found.spelling(is_cased), [target.spelling(is_cased) for target in self._target_words]
        first_forms = [target.spelling(is_cased) for target in self._capitalised_targets]
        ends = {found.first + len(form) for form in first_forms if found.starts_with(form, is_cased)}
        n, start = 0, 0
        for end in range(1, len(words) + 1):
            is_form = any(end - len(form) >= start and words[end - len(form) : end] == form for form in forms)
            if is_form or (start == 0 and end in ends):
                n, start = n + 1, end
        return n

    @cached_property
    def _target_words(self) -> "list[TextWords]":
        return [TextWords.of(target) for target in self.targets]

    @cached_property
    def _capitalised_targets(self) -> "list[TextWords]":
        """With a capital, as at the beginning of a text"""
        return [TextWords.of(capitalise(target)) for target in self.targets]

    def __str__(self) -> str:
        return f"{self.source} → {f' {_ALTERNATIVES} '.join(self.targets)}"


@dataclass(frozen=True)
class TextWords:
    """The words of a text"""

    written: tuple[str, ...]
    folded: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> "TextWords":
        written = _words(_nfc(text))
        return cls(written, tuple(map(fold_word, written)))

    @cached_property
    def first(self) -> int:
        """The number of the first one that is not punctuation"""
        return next((i for i, word in enumerate(self.written) if has_letter(word)), 0)

    def spelling(self, is_cased: bool) -> tuple[str, ...]:
        return self.written if is_cased else self.folded

    def starts_with(self, form: tuple[str, ...], is_cased: bool) -> bool:
        """Return whether the words, without punctuation in front of them, start with others."""
        return self.spelling(is_cased)[self.first : self.first + len(form)] == form


@dataclass(frozen=True)
class TermMatch:
    """An occurrence of a term in a text, from character `start` to `end`"""

    start: int
    end: int
    term: GlossaryTerm
    """With the targets in the case of the text"""


@dataclass(frozen=True)
class Glossary:
    """Terms with their translations. Of equal source terms the last one counts.

    >>> glossary = Glossary.of({"house": "Haus", "front door": "Haustür | Haustüren"})
    >>> [str(match.term) for match in glossary.find("the front door of a house")]
    ['front door → Haustür | Haustüren', 'house → Haus']
    """

    terms: tuple[GlossaryTerm, ...]

    @classmethod
    def read(cls, path: str | Path) -> "Glossary":
        """Read a file with one term per line: the source term, a tab, and its targets separated by |.

        Empty lines and lines that start with # are left out.
        """
        path = Path(path)
        check_input_file(path)
        lines: dict[tuple[str, ...], int] = {}
        terms = []
        for number, line in enumerate(read_lines(path), start=1):
            where = f"{path}, line {number:,}"
            text = _decode(line, where)
            if not text or text.startswith("#"):
                continue
            term = _parse_line(text, where)
            first = lines.setdefault(_words(term.source), number)
            if first != number:
                raise UserError(f"{where}: '{term.source}' is in line {first:,} too; write all its targets there")
            terms.append(term)
        if not terms:
            raise UserError(f"{path}: has no terms; write one per line: source term, tab, target term")
        return cls(tuple(terms))

    @classmethod
    def of(cls, terms: Mapping[str, str]) -> "Glossary":
        """Make a glossary from source terms and their targets; several accepted targets are separated by |."""
        return cls(tuple(GlossaryTerm.parse(source, target) for source, target in terms.items()))

    def find(self, text: str) -> list[TermMatch]:
        """Return the terms that occur in a text as whole words, from left to right.

        At each word the longest term counts; terms do not overlap. A term in the case of the text comes before one
        that differs in case, whose targets then get capitals like the text.
        """
        spans = word_spans(text)
        words = _words(text)
        folded = tuple(map(fold_word, words))
        matches, i = list[TermMatch](), 0
        while i < len(words):
            for n in self._lengths.get(folded[i], ()):
                if i + n <= len(words) and (forms := self._forms.get(folded[i : i + n])):
                    is_first = not any(map(has_letter, words[:i]))
                    term = _in_case_of(words[i : i + n], forms, is_first)
                    matches.append(TermMatch(spans[i][0], spans[i + n - 1][1], term))
                    i += n - 1
                    break
            i += 1
        return matches

    @cached_property
    def _forms(self) -> dict[tuple[str, ...], dict[tuple[str, ...], GlossaryTerm]]:
        """The folded words of a term → its forms that differ in case"""
        forms: dict[tuple[str, ...], dict[tuple[str, ...], GlossaryTerm]] = {}
        for term in self.terms:
            forms.setdefault(_folded(term.source), {})[_words(term.source)] = term
        return forms

    @cached_property
    def _lengths(self) -> dict[str, list[int]]:
        """The first word of terms, folded → how many words they have, the longest first"""
        lengths: dict[str, set[int]] = {}
        for words in self._forms:
            lengths.setdefault(words[0], set()).add(len(words))
        return {word: sorted(found, reverse=True) for word, found in lengths.items()}


def _decode(line: bytes, where: str) -> str:
    try:
        return line.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise UserError(f"{where}: is not UTF-8; convert the file: iconv -f LATIN1 -t UTF-8 OLD > NEW") from None


def _parse_line(line: str, where: str) -> GlossaryTerm:
    source, *targets = line.split("\t")
    if len(targets) != 1:
        problem = f"has {len(targets)} tabs" if targets else "has no tab between two terms"
        raise UserError(f"{where}: {problem}; write the source term, one tab, and the target term")
    try:
        return GlossaryTerm.parse(source, targets[0])
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def count_terms(matches: Sequence[TermMatch]) -> Counter[GlossaryTerm]:
    """Return how often each term occurs; terms with the same targets count together, by the name of the first."""
    first = dict[tuple[str, ...], GlossaryTerm]()
    return Counter(first.setdefault(match.term.targets, match.term) for match in matches)


def unmet_terms(matches: Sequence[TermMatch], translation: str) -> tuple[GlossaryTerm, ...]:
    """Return the terms of a source whose targets its translation has less often than the source has them."""
    words = TextWords.of(translation)
    return tuple(term for term, n in count_terms(matches).items() if term.count_in(words) < n)


def write_terms(matches: Sequence[TermMatch], translation: str) -> str:
    """Return a translation with the targets of the terms of its source in the case of the glossary."""
    targets = tuple(GlossaryTerm(target, (target,)) for match in matches for target in match.term.targets)
    for match in reversed(Glossary(targets).find(translation)):
        translation = translation[: match.start] + match.term.targets[0] + translation[match.end :]
    return translation


def _nfc(text: str) -> str:
    return normalize("NFC", text)


def _words(text: str) -> tuple[str, ...]:
    return tuple(text[start:end].translate(_APOSTROPHES) for start, end in word_spans(text))


def _folded(text: str) -> tuple[str, ...]:
    return tuple(map(fold_word, _words(text)))


def _in_case_of(words: Sequence[str], forms: Mapping[tuple[str, ...], GlossaryTerm], is_first: bool) -> GlossaryTerm:
    """Return the form of a term that is written like the words of a text, or one whose targets get their capitals.

    A capital of the first word of a text may be due to its position, so that the target need not have it.
    """
    if term := forms.get(tuple(words)):
        return term
    written, term = "".join(words), next(iter(forms.values()))
    if len(written) > 1 and written == written.upper() and term.source != term.source.upper():
        return GlossaryTerm(term.source, tuple(target.upper() for target in term.targets))
    if written[:1].isupper() and not term.source[:1].isupper():
        capitals = tuple(map(capitalise, term.targets))
        return GlossaryTerm(term.source, tuple(dict.fromkeys((*term.targets, *capitals) if is_first else capitals)))
    return term
