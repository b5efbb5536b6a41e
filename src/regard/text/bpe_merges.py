"""The merges that put the words of a text together, to be watched one after the other."""

from functools import lru_cache
from typing import Any

from regard.text.bpe_dropout import BpeDropout
from regard.text.tokenizer import SentencePieceTokenizer, Tokenizer

_WORDS, _LONGEST = 50, 40  # merging is quadratic in a word's characters


@lru_cache(maxsize=16)
def _merger(tokenizer: SentencePieceTokenizer) -> BpeDropout:
    """It reads the whole vocabulary, so once a tokenizer is enough."""
    return BpeDropout(tokenizer, p=0.0)


def merges_of(tokenizer: Tokenizer, text: str) -> list[dict[str, Any]] | None:
    """Of each word its pieces before any merge, after the first, … and at the end; None: it has no merges"""
    if not isinstance(tokenizer, SentencePieceTokenizer):
        return None
    bpe, found = _merger(tokenizer), []
    for number, word in enumerate(text.split()[:_WORDS]):
        if len(word) > _LONGEST:
            continue
        if bpe.segment(word, lambda: True) != tokenizer.encode([word])[0]:
            return None  # a unigram model: it does not merge, it chooses
        found.append({"word": number, "stages": list(bpe.stages(word))})
    return found
