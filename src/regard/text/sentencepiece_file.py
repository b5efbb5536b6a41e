"""The file of a SentencePiece model, which is a protocol buffer: the kinds of its pieces.

The library tells which pieces are bytes or control symbols, but not which were defined by the user.
"""

from collections.abc import Iterator

_PIECES = 1  # field of the model: its pieces, in the order of their ids
_KIND = 3  # field of a piece
_NORMAL, _USER_DEFINED = 1, 4  # kinds


def user_defined_ids(model: bytes) -> list[int]:
    """Return the ids of the pieces that were named when the model was trained, and are never split."""
    kinds = (_kind(content) for field, content in _fields(model) if field == _PIECES and isinstance(content, bytes))
    return [i for i, kind in enumerate(kinds) if kind == _USER_DEFINED]


def _kind(piece: bytes) -> int:
    return next((value for field, value in _fields(piece) if field == _KIND and isinstance(value, int)), _NORMAL)


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the value of each field of a message."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        match key & 7:
            case 0:
                value, position = _varint(message, position)
                yield key >> 3, value
                continue
            case 1:
                size = 8
            case 2:
                size, position = _varint(message, position)
            case 5:
                size = 4
            case wire_type:
                raise ValueError(f"wire type {wire_type}")
        yield key >> 3, message[position : position + size]
        position += size


def _varint(message: bytes, position: int) -> tuple[int, int]:
    """Return the integer at a position, seven bits per byte, and the position after it."""
    value, shift = 0, 0
    while True:
        byte = message[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position
