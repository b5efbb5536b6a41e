"""The text that single tokens add to an output."""

from collections.abc import Sequence

from regard.text.tokenizer import Tokenizer
from regard.text.vocab import WORD_START

_CONTEXT = 4  # tokens; a character of UTF-8 has at most four bytes
_INCOMPLETE = "\ufffd"


def token_string(tokenizer: Tokenizer, before: Sequence[int], token: int) -> str:
    """Return what a token adds to the text of the tokens `before` it.

    A token that adds no text of its own is shown by its name: `</s>`, or `<0xE2>` for a part of a character.

    >>> from regard.text.tokenizer import ListTokenizer
    >>> words = ListTokenizer("word", ["green", "witch"])
    >>> green, witch = words.encode(["green witch"])[0]
    >>> token_string(words, [], green), token_string(words, [green], witch)
    ('green', ' witch')
    """
    context = list(before[-_CONTEXT:])
    start, text = tokenizer.decode(context), tokenizer.decode([*context, token])
    added = text[len(start) :]
    is_incomplete = _INCOMPLETE in (start[-1:], text[-1:])
    if added and text.startswith(start) and not is_incomplete:
        return added
    return tokenizer.tokens([token])[0].replace(WORD_START, " ")
