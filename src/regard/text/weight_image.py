"""Weights as a small PNG image inside HTML: blue, and more opaque the larger a weight, for light and dark pages."""

import struct
import zlib
from base64 import b64encode
from html import escape

import numpy as np
from numpy.typing import NDArray

MAX_SIDE = 256  # rows or columns of an image
_BLUE = (33, 102, 172)
_SIZE = 96  # pixels of the longer side; one with more weights than this has one pixel each


def weight_image_html(weights: NDArray[np.float32], name: str) -> str:
    """Return an image of weights [rows, columns] from 0 to 1; `name` is shown when the mouse points at it.

    Nothing outside the page is needed. Larger matrices than `MAX_SIDE` give the name as text instead.
    """
    label = escape(name)
    if max(weights.shape) > MAX_SIDE:
        return f"<span>{label}</span>"
    scale = max(1, _SIZE // max(1, *weights.shape))
    data = b64encode(weight_png(weights, scale)).decode("ascii")
    border = "border:1px solid rgba(128,128,128,.4)"
    return f'<img src="data:image/png;base64,{data}" alt="{label}" title="{label}" style="{border}">'


def weight_png(weights: NDArray[np.float32], scale: int) -> bytes:
    """Return weights [rows, columns] as a PNG file in which each is a square of `scale` pixels per side."""
    opacity = np.round(255 * np.clip(np.nan_to_num(weights), 0, 1)).astype(np.uint8)
    opacity = opacity.repeat(scale, axis=0).repeat(scale, axis=1)
    height, width = opacity.shape
    pixels = np.empty((height, width, 4), dtype=np.uint8)
    pixels[..., :3], pixels[..., 3] = _BLUE, opacity
    # Each line of pixels starts with the number of its filter; 0 is none.
    lines = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)  # 8 bits per channel, 6: colour with opacity
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
