"""Tokenizers from the content of their files."""

import json
from pathlib import PurePath
from typing import Any, Protocol

from regard.errors import UserError
from regard.text.byte_pair_tokenizer import BytePairTokenizer
from regard.text.list_tokenizer import ListTokenizer
from regard.text.marian_tokenizer import MarianTokenizer
from regard.text.tokenizer import ByteTokenizer, SentencePieceTokenizer, Tokenizer
from regard.text.wordpiece_tokenizer import WordPieceTokenizer


class ImportedTokenizer(Protocol):
    """A class of tokenizers that come with imported models."""

    kind: str

    def from_tree(self, tree: dict[str, Any]) -> Tokenizer:
        """Make the tokenizer from the JSON object in its file."""
        ...


_IMPORTED: dict[str, ImportedTokenizer] = {
    cls.kind: cls for cls in (MarianTokenizer, BytePairTokenizer, WordPieceTokenizer)
}


def read_tokenizer(name: str, content: bytes) -> Tokenizer:
    """Make a tokenizer from its file."""
    if PurePath(name).suffix == SentencePieceTokenizer.suffix:
        return SentencePieceTokenizer(content)
    if content == ByteTokenizer().to_bytes():
        return ByteTokenizer()
    try:
        tree = json.loads(content)
        if (cls := _IMPORTED.get(tree["kind"])) is not None:
            return cls.from_tree(tree)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UserError("the tokenizer file is damaged; copy the model folder again") from None
    return ListTokenizer.from_bytes(content)
