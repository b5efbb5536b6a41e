"""BPE merges of a text: how each word is put together from characters, one merge at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from regard.text.bpe_segmenter import BpeSegmenter
from regard.text.tokenizer import SentencePieceTokenizer, Tokenizer

_MAX_WORDS = 50
_MAX_CHARACTERS = 40  # of a word; merging takes time quadratic in them


@dataclass(frozen=True)
class WordMerges:
    """The segmentations of one word while it is merged."""

    word: int
    """Index of the word in the text."""
    stages: Sequence[Sequence[str]]
    """The pieces before any merge, after the first merge, …, after the last."""


def bpe_merges(tokenizer: Tokenizer, text: str) -> list[WordMerges] | None:
    """Return the merges of each word; None if the tokenizer does not use BPE.

    Only the first 50 words are segmented, and words of more than 40 characters are left out.
    """
    if not isinstance(tokenizer, SentencePieceTokenizer):
        return None
    bpe, words = _cached_bpe(tokenizer), []
    for index, word in enumerate(text.split()[:_MAX_WORDS]):
        if len(word) > _MAX_CHARACTERS:
            continue
        if bpe.segment(word) != tokenizer.encode([word])[0]:
            return None  # a unigram model: it has no merges
        words.append(WordMerges(index, list(bpe.stages(word))))
    return words


@lru_cache(maxsize=16)
def _cached_bpe(tokenizer: SentencePieceTokenizer) -> BpeSegmenter:
    """Cached because it reads the whole vocabulary."""
    return BpeSegmenter(tokenizer)
