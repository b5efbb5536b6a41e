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

    @classmethod
    def of(cls, text: str, language: str) -> "SplitText":
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
        return cls(tuple(sentences), tuple(_OTHER_BREAKS.sub(" ", gap) for gap in gaps))

    @classmethod
    def whole(cls, text: str) -> "SplitText":
        """Take a text as one sentence."""
        return cls((text,), ("", ""))

    def join(self, translations: Sequence[str]) -> str:
        """Put the translations of the sentences in their places.

        Sentences without a space between them get one, unless the translations are in a script without spaces; there a
        single space is left out.
        """
        text = self.gaps[0]
        for i, (translation, gap) in enumerate(zip(translations, self.gaps[1:], strict=True)):
            text += translation
            if i + 1 < len(translations) and gap in ("", " "):
                gap = "" if lacks_spaces(translation) and lacks_spaces(translations[i + 1]) else " "
            text += gap
        return text


def _parts(text: str, language: str) -> Iterator[str]:
    """Yield the sentences of each line with the white space around them; together they are the text.

    Half of a surrogate pair, which UTF-8 cannot encode, becomes a question mark.
    """
    for line in _LINE.findall(encodable(text)):
        parts = segment(language, line)
        yield from parts if "".join(parts) == line else [line]


def _has_letter(text: str) -> bool:
    return any(map(str.isalpha, text))
