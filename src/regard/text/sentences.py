"""Texts as sentences: split for translation, and put together again with their line breaks and spaces."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sentencex import segment

from regard.text.clean import encodable
from regard.text.units import lacks_spaces

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_OTHER_BREAKS = re.compile("\r(?!\n)|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
"""What some programs take for a line break, and others do not"""
_ITEM_NUMBER = re.compile(r"\s*[(\[]?\d{1,4}(?:\.\d{1,4})*[)\]]\s+")
"""Numbers of list items that sentencex does not split off, as it does "2. "."""


@dataclass(frozen=True)
class SplitText:
    """The sentences of a text and what is between them.

    >>> split = SplitText.of("One. Two!  Three?", "en")
    >>> split.sentences
    ('One.', 'Two!', 'Three?')
    >>> split.join(["Un.", "Deux !", "Trois ?"])
    'Un. Deux !  Trois ?'
    """

    sentences: tuple[str, ...]
    gaps: tuple[str, ...]
    """White space, and parts without a letter: before each sentence, and after the last"""
    tag: str = ""
    """The tag of the target language that all sentences are translated with"""

    @classmethod
    def of(cls, text: str, language: str, tag: str = "") -> "SplitText":
        """Split a text at the ends of lines and of sentences. Codes of unknown languages get the rules of English.

        Parts without a letter, such as the numbers of a list, are not sentences if there are others.
        """
        parts = list(_parts(text, language))
        has_letters = any(_has_letter(part) for part in parts)
        sentences, gaps = list[str](), [""]
        for part in parts:
            sentence = part.strip()
            if not sentence or (has_letters and not _has_letter(sentence)):
                gaps[-1] += part
                continue
            gaps[-1] += part[: len(part) - len(part.lstrip())]
            sentences.append(sentence)
            gaps.append(part[len(part.rstrip()) :])
        return cls(tuple(sentences), tuple(_OTHER_BREAKS.sub(" ", gap) for gap in gaps), tag)

    @classmethod
    def whole(cls, text: str, tag: str = "") -> "SplitText":
        """Take a text as one sentence."""
        return cls((text,), ("", ""), tag)

    def join(self, translations: Sequence[str]) -> str:
        """Put the translations of the sentences in their places."""
        first, *others = self.gaps_between(translations)
        return first + "".join(part for pair in zip(translations, others, strict=True) for part in pair)

    def gaps_between(self, translations: Sequence[str]) -> list[str]:
        """Return the gaps as they are between translations.

        Sentences without a space between them get one, unless the translations are in a script without spaces; there a
        single space is left out.
        """
        first, *others = self.gaps
        gaps = [first]
        for i, (translation, gap) in enumerate(zip(translations, others, strict=True), start=1):
            if i < len(translations) and gap in ("", " "):
                gap = "" if lacks_spaces(translation) and lacks_spaces(translations[i]) else " "
            gaps.append(gap)
        return gaps


def _parts(text: str, language: str) -> Iterator[str]:
    """Yield the sentences of each line with the white space around them; together they are the text.

    Half of a surrogate pair, which UTF-8 cannot encode, becomes a question mark.
    """
    for line in _LINE.findall(encodable(text)):
        parts = [line] if line.isspace() else segment(language, line)
        for part in parts if "".join(parts) == line else [line]:
            end = number.end() if (number := _ITEM_NUMBER.match(part)) else 0
            yield from (part[:end], part[end:])


def _has_letter(text: str) -> bool:
    return any(map(str.isalpha, text))
