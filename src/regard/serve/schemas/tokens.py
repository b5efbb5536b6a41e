"""Tokens in responses of the page's own API."""

from collections.abc import Sequence

from regard.serve.schemas.base import ResponseBody
from regard.text.characters import character_parts
from regard.text.tokenizer import Tokenizer
from regard.text.words import TokenWords


class CharacterInfo(ResponseBody):
    """For a token that is a byte of a character: the character, which byte of it this is, and how many it has."""

    text: str
    index: int
    count: int

    @classmethod
    def list_of(cls, tokens: Sequence[str]) -> "list[CharacterInfo | None]":
        return [
            None if part is None else cls(text=part.character, index=part.index, count=part.count)
            for part in character_parts(tokens)
        ]


class PieceInfo(ResponseBody):
    """A token as text, and the index of its word; −1 for tokens of no word."""

    text: str
    word: int
    character: CharacterInfo | None = None

    @classmethod
    def list_of(cls, tokens: Sequence[str], first_word: int = 0) -> "list[PieceInfo]":
        words, characters = TokenWords.of(tokens).first_units(), CharacterInfo.list_of(tokens)
        return [
            cls(text=text, word=word if word < 0 else first_word + word, character=character)
            for text, word, character in zip(tokens, words, characters, strict=True)
        ]


class TokenInfo(ResponseBody):
    """A token with its id; for a region of an image, the number of the region."""

    id: int
    text: str
    word: int
    character: CharacterInfo | None = None

    @classmethod
    def list_of(cls, ids: Sequence[int], tokens: Sequence[str]) -> "list[TokenInfo]":
        words, characters = TokenWords.of(tokens).first_units(), CharacterInfo.list_of(tokens)
        return [
            cls(id=i, text=text, word=word, character=character)
            for i, text, word, character in zip(ids, tokens, words, characters, strict=True)
        ]

    @classmethod
    def encode(cls, tokenizer: Tokenizer, ids: Sequence[int]) -> "list[TokenInfo]":
        return cls.list_of(ids, tokenizer.tokens(ids))

    @classmethod
    def single(cls, tokenizer: Tokenizer, token: int) -> "TokenInfo":
        """A token outside of a text, which belongs to no word"""
        return cls(id=token, text=tokenizer.tokens([token])[0], word=-1)
