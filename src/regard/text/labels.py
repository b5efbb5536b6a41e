"""Token labels for people: readable, printable and short."""

from collections.abc import Sequence
from unicodedata import category

from regard.text.vocab import WORD_START

MAX_LABEL_LENGTH = 16
_WHITE_SPACE_SYMBOLS = {" ": "␣", "\n": "↵", "\t": "⇥"}


def token_labels(tokens: Sequence[str]) -> list[str]:
    """Return one short, printable label per token.

    If any token starts with `▁`, the tokens are pieces of words and each piece that continues a word gets a leading
    hyphen. Otherwise they are words or characters and stay as they are.
    """
    are_pieces = any(token.startswith(WORD_START) for token in tokens)
    printable = map(make_printable, tokens)
    return [shorten_label(readable_piece(token) if are_pieces else token) for token in printable]


def readable_piece(token: str) -> str:
    """`▁house` → `house` (starts a word) and `ing` → `-ing` (continues one); specials and bytes stay as they are."""
    if (token.startswith("<") and token.endswith(">")) or token in _WHITE_SPACE_SYMBOLS.values():
        return token
    if token.startswith(WORD_START):
        return token[1:] or WORD_START
    return f"-{token}"


def shorten_label(label: str) -> str:
    """Cut a label to `MAX_LABEL_LENGTH` characters, the last of which is then `…`."""
    return label if len(label) <= MAX_LABEL_LENGTH else f"{label[: MAX_LABEL_LENGTH - 1]}…"


def make_printable(text: str) -> str:
    """Replace a white-space token by a symbol, and control characters and surrogates in a text by `<0x..>`.

    HTML and SVG cannot contain control characters.
    """
    if text in _WHITE_SPACE_SYMBOLS:
        return _WHITE_SPACE_SYMBOLS[text]
    return "".join(f"<0x{ord(c):02X}>" if category(c) in ("Cc", "Cs") else c for c in text)
