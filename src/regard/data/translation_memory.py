"""Translation memories: pairs of segments from TMX, XLIFF 1.2 and XLIFF 2, read as a stream.

A file that declares entities is refused, because entities can stand for other files or for gigabytes of text.
"""

from collections.abc import Generator, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import BinaryIO
from xml.parsers import expat

from regard.data.data_file import BadLine, DataFile
from regard.errors import UserError

Segments = tuple[str, str] | BadLine

_BLOCK = 1 << 16
_MOST_CHARS = 100_000
"""Longer segments are cut; they are too long to be used in any case"""

_SPACE = " "  # between the namespace and the name of an element
_LANGUAGE = "http://www.w3.org/XML/1998/namespace lang"
_CODES = {"bpt", "ept", "ph", "it", "ut", "x", "bx", "ex", "sc", "ec", "cp"}
"""Elements inside a segment that hold mark-up, not text"""


def read_translation_memory(file: DataFile, langs: tuple[str, str] | None) -> Iterator[Segments]:
    """Yield the segments of a TMX or XLIFF in these languages; None: those of its first unit."""
    with file.open() as content:
        try:
            yield from _Memory(langs).read(content)
        except expat.ExpatError as error:
            problem = expat.ErrorString(error.code)
            raise UserError(f"{file.path}: not well-formed XML at line {error.lineno} ({problem})") from None
        except (LookupError, ValueError) as error:
            raise UserError(f"{file.path}: {error}") from None


def memory_languages(file: DataFile) -> tuple[str, str] | None:
    """Return the languages of a TMX or XLIFF: those of its first unit that has two."""
    memory = _Memory(None)

    def units() -> Generator[Segments]:
        with file.open() as content:
            yield from memory.read(content)

    with suppress(expat.ExpatError, LookupError, ValueError), closing(units()) as segments:
        next((True for _ in segments if memory.langs is not None), None)
    return memory.langs


@dataclass
class _Unit:
    """What was read of one unit so far: texts by language, in order."""

    texts: dict[str, str] = field(default_factory=dict)
    ignored: int = 0
    """Open elements whose content is not a translation"""


class _Memory:
    """Handlers of expat that collect the units of a file."""

    def __init__(self, langs: tuple[str, str] | None) -> None:
        self.langs = langs
        self.languages: dict[str, str] = {}
        """XLIFF: the language of <source> and <target>"""
        self.unit: _Unit | None = None
        self.language = ""
        """TMX: the language of the present <tuv>"""
        self.segment: str | None = None
        """The language of the segment that is being read"""
        self.parts: list[str] = []
        self.room = _MOST_CHARS
        """Characters that may still be added to `parts`"""
        self.done: list[Segments] = []
        self.parser = expat.ParserCreate(namespace_separator=_SPACE)
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.EntityDeclHandler = _refuse_entities

    def read(self, content: BinaryIO) -> Iterator[Segments]:
        while block := content.read(_BLOCK):
            self.parser.Parse(block, False)
            yield from self.done
            self.done.clear()
        self.parser.Parse(b"", True)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        match name.rpartition(_SPACE)[2], self.unit:
            case "header", None if "srclang" in attributes:
                if self.langs is None and (first := attributes["srclang"]).lower() != "*all*":
                    self.languages["source"] = first
            case (("file" | "xliff"), None):
                self.languages |= _source_and_target(attributes)
            case (("tu" | "trans-unit" | "segment"), None):
                self.unit = _Unit()
            case _, None:
                pass
            case element, unit:
                self._start_inside(element, unit, attributes)

    def _start_inside(self, element: str, unit: _Unit, attributes: dict[str, str]) -> None:
        if unit.ignored or element == "alt-trans" or (self.segment is not None and element in _CODES):
            unit.ignored += 1
        elif element == "tuv":
            self.language = attributes.get(_LANGUAGE) or attributes.get("lang", "")
        elif element == "seg" and self.segment is None:
            self.segment = self.language
        elif element in ("source", "target") and self.segment is None:
            self.segment = attributes.get(_LANGUAGE) or self.languages.get(element, element)

    def _text(self, text: str) -> None:
        if self.unit and self.segment is not None and not self.unit.ignored and self.room:
            self.parts.append(text[: self.room])
            self.room -= len(self.parts[-1])

    def _end(self, name: str) -> None:
        element, unit = name.rpartition(_SPACE)[2], self.unit
        if unit is None:
            return
        if unit.ignored:
            unit.ignored -= 1
        elif element in ("seg", "source", "target") and self.segment is not None:
            unit.texts.setdefault(self.segment, "".join(self.parts))
            self.segment, self.parts, self.room = None, [], _MOST_CHARS
        elif element in ("tu", "trans-unit", "segment"):
            self.done.append(self._pair(unit))
            self.unit = None

    def _pair(self, unit: _Unit) -> Segments:
        if self.langs is None and len(unit.texts) > 1:
            first = self.languages.get("source", next(iter(unit.texts)))
            others = [language for language in unit.texts if not _is_language(language, first)]
            self.langs = (first, others[0]) if others else None
        sides = [
            next((text for name, text in unit.texts.items() if _is_language(name, language)), None)
            for language in self.langs or ()
        ]
        if len(sides) < 2 or sides[0] is None or sides[1] is None:
            return BadLine("no segment in one of the languages")
        return sides[0], sides[1]


def _source_and_target(attributes: dict[str, str]) -> dict[str, str]:
    """Return the languages of an XLIFF, whose attributes have other names in version 2."""
    languages = {}
    for side, names in {"source": ("source-language", "srcLang"), "target": ("target-language", "trgLang")}.items():
        with suppress(StopIteration):
            languages[side] = next(attributes[name] for name in names if name in attributes)
    return languages


def _is_language(name: str, wanted: str) -> bool:
    """Return whether en-US is meant by en, or en by en-US."""
    one, other = name.lower().replace("_", "-"), wanted.lower().replace("_", "-")
    return one == other or one.startswith(f"{other}-") or other.startswith(f"{one}-")


def _refuse_entities(*_: object) -> None:
    raise ValueError("declares entities, which is not safe; remove its <!ENTITY …> lines")
