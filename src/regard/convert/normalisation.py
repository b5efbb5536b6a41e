"""Whether a SentencePiece model, which may be imported, normalises texts; ours do not."""

from regard.text.tokenizer import SentencePieceTokenizer, Tokenizer
from regard.text.vocab import WORD_START

_NORMALISED = "Å① ﬁＡ"
"""Characters that the usual normalisation rules of SentencePiece change"""


def changes_characters(tokenizer: Tokenizer) -> bool:
    if not isinstance(tokenizer, SentencePieceTokenizer):
        return False
    return tokenizer.normalise(_NORMALISED).removeprefix(WORD_START) != _NORMALISED.replace(" ", WORD_START)
