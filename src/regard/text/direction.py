"""Directions: the pairs of languages that a translator can translate, and how one of them is chosen."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from regard.config import Config
from regard.errors import UserError
from regard.text.language_codes import same_language
from regard.text.target_tag import split_tag, tag_language, target_tag
from regard.text.tokenizer import Tokenizer
from regard.text.vocab import UNK

_MOST_SHOWN = 20  # target languages that a message names


class Direction(Config):
    """A pair of languages, and the tag by which a model knows that the second one is wanted."""

    source: str
    target: str
    tag: str = ""
    """First word of every source; empty: the model has one target language and needs none"""

    @property
    def languages(self) -> tuple[str, str]:
        return self.source, self.target

    @property
    def name(self) -> str:
        """For messages and tables, e.g. en-fr"""
        return f"{self.source}-{self.target}"


@dataclass(frozen=True)
class Directions:
    """The directions of one translator: at least one."""

    all: tuple[Direction, ...]
    more_tags: frozenset[str] = frozenset()
    """Tags of the vocabulary that texts may begin with, besides those of the directions"""

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> "Directions":
        """Return the directions of a model of these pairs of languages; it needs tags if there are several targets.

        >>> [direction.tag for direction in Directions.of([("en", "fr"), ("en", "nds")])]
        ['>>fra<<', '>>nds<<']
        >>> [direction.tag for direction in Directions.of([("fr", "en"), ("de", "en")])]
        ['', '']
        """
        distinct = tuple(dict.fromkeys(pairs))
        needs_tags = len({target for _, target in distinct}) > 1
        return cls(
            tuple(
                Direction(source=source, target=target, tag=target_tag(target) if needs_tags else "")
                for source, target in distinct
            )
        )

    @classmethod
    def from_tags(cls, languages: tuple[str, str], tags: Iterable[str]) -> "Directions":
        """Return the directions of an imported model that has these tags in its vocabulary.

        With one tag or none, the model has one target language and is used without tags.
        """
        tags = tuple(tags)
        if len(tags) < 2:
            return cls.of([languages])
        return cls(tuple(Direction(source=languages[0], target=tag_language(tag), tag=tag) for tag in tags))

    def __iter__(self) -> Iterator[Direction]:
        return iter(self.all)

    @property
    def first(self) -> Direction:
        return self.all[0]

    @property
    def targets(self) -> list[str]:
        """The target languages, each once"""
        return list(dict.fromkeys(direction.target for direction in self))

    @property
    def title(self) -> str:
        """The directions in one line: en → fr, en → de"""
        shown = ", ".join(" → ".join(direction.languages) for direction in self.all[:_MOST_SHOWN])
        return shown if len(self.all) <= _MOST_SHOWN else f"{shown} … ({len(self.all)} directions)"

    @property
    def several(self) -> tuple[Direction, ...]:
        """All directions if there are several, otherwise none: those that a model directory stores"""
        return self.all if len(self.all) > 1 else ()

    def find(self, to: str | None = None) -> Direction:
        """Return the first direction with the target language `to`, given as a code or as its tag.

        None or "" is the only target language, if there is only one.
        """
        if not to:
            if len(self.targets) == 1:
                return self.first
            raise UserError(
                "the target language is missing; choose it with --to, in Python with to=: this model translates to "
                f"{self._choices()}"
            )
        for direction in self:
            if to == direction.tag or same_language(to, direction.target):
                return direction
        raise UserError(f"{to!r:.40} is not a target language of this model, which translates to {self._choices()}")

    def read_tag(self, text: str, to: str | None = None) -> tuple[str, str]:
        """Return the tag that a text is translated with, and the text without it.

        The tag is that at the beginning of the text, if the model has such a tag, otherwise that of the language `to`.
        An empty text needs none.
        """
        tag, rest = split_tag(text)
        if tag in self._tags:
            return tag, rest
        if not to and not text.strip():
            return "", text
        return to if to in self._tags else self.find(to).tag, text

    def read_tags(self, texts: Sequence[str], to: str | Sequence[str] | None = None) -> list[tuple[str, str]]:
        """Return what `read_tag` does for each text; `to` is the language of all of them, or a list."""
        if to is None or isinstance(to, str):
            return [self.read_tag(text, to) for text in texts]
        if len(to) != len(texts):
            raise UserError(f"there are {len(texts)} texts but {len(to)} target languages; give one, or one per text")
        return [self.read_tag(text, each) for text, each in zip(texts, to, strict=True)]

    def has_tag(self, text: str) -> bool:
        """Return whether a text begins with a tag of the model."""
        return split_tag(text)[0] in self._tags

    def without_tag(self, text: str) -> str:
        """Return a text without the tag that it may begin with."""
        return split_tag(text)[1] if self.has_tag(text) else text

    def with_tag(self, text: str, to: str | None = None) -> str:
        """Return a text with the tag in front that it is translated with, if there is one; an empty text gets none."""
        tag, rest = self.read_tag(text, to)
        return f"{tag} {rest}" if tag and rest.strip() else rest

    def check_tags(self, tokenizer: Tokenizer) -> None:
        """Refuse a tokenizer that splits the tags, or does not know them."""
        for direction in self:
            if direction.tag and (len(ids := tokenizer.encode([direction.tag])[0]) != 1 or ids[0] == UNK):
                raise UserError(
                    f"the tokenizer has no token {direction.tag}, which a model with several target languages needs; "
                    "let the run train a new tokenizer, or start from a model that has it"
                )

    def source_of(self, tag: str) -> str:
        """Return the language of texts with this tag."""
        return next((direction.source for direction in self if direction.tag == tag), self.first.source)

    @cached_property
    def _tags(self) -> frozenset[str]:
        return self.more_tags | {direction.tag for direction in self if direction.tag}

    def _choices(self) -> str:
        shown = ", ".join(islice(self.targets, _MOST_SHOWN))
        return shown if len(self.targets) <= _MOST_SHOWN else f"{shown} … ({len(self.targets)} languages)"
