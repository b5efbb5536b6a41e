"""Tokenizers as tokenizer.js reads them."""

from typing import Any

from regard.convert.normalisation import changes_characters
from regard.text.list_tokenizer import ListTokenizer
from regard.text.tokenizer import ByteTokenizer, SentencePieceTokenizer, Tokenizer
from regard.text.vocab import WORD_START


def tokenizer_problem(tokenizer: Tokenizer) -> str | None:
    """Return why tokenizer.js cannot read a tokenizer; None: it can."""
    if type(tokenizer) not in (SentencePieceTokenizer, ListTokenizer, ByteTokenizer):
        return "the page has no tokenizer of that kind"
    if isinstance(tokenizer, SentencePieceTokenizer):
        if tokenizer.lossless:
            return "the page has no tokenizer that keeps all white space (tokenizer.lossless)"
        if changes_characters(tokenizer):
            return "the page has no tokenizer with the normalisation of this SentencePiece model"
    return None


def describe_tokenizer(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return what tokenizer.js needs to know of a tokenizer."""
    if isinstance(tokenizer, ByteTokenizer):
        return {"kind": "bytes"}
    pieces = tokenizer.tokens(range(tokenizer.size))
    if isinstance(tokenizer, ListTokenizer):
        is_word = tokenizer.kind == "word"
        return {"kind": tokenizer.kind, "pieces": [p.removeprefix(WORD_START) if is_word else p for p in pieces]}
    assert isinstance(tokenizer, SentencePieceTokenizer)
    scores = dict(tokenizer.piece_scores().values())
    return {
        "kind": "bpe" if tokenizer.splits_words else "unigram",
        "pieces": pieces,
        "scores": [scores.get(i, 0.0) for i in range(tokenizer.size)],
        "bytes": next((i for i in range(tokenizer.size) if tokenizer.is_byte(i)), None),
    }
