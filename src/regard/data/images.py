"""Image files to arrays and back."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import UserError
from regard.files import disk_error

if TYPE_CHECKING:
    from PIL.Image import Image

ImageArray = NDArray[np.uint8]
"""[height, width, 3]"""
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")
"""Formats that are read. Pillow knows more, but some of them (EPS) start another program."""


def load_image(path: Path, size: int) -> ImageArray:
    """Return the central square of an image, scaled to uint8 [size, size, 3]; transparent parts become white."""
    pillow, ops = _pillow()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", pillow.DecompressionBombWarning)
            with pillow.open(path, formats=FORMATS) as opened:
                upright = ops.exif_transpose(opened)
                fitted = ops.fit(_to_rgb(upright, pillow), (size, size), pillow.Resampling.BICUBIC)
    except (pillow.DecompressionBombError, pillow.DecompressionBombWarning, MemoryError):
        limit = (pillow.MAX_IMAGE_PIXELS or 0) // 10**6
        raise UserError(f"{path}: over {limit} million pixels; make the image smaller") from None
    except Exception as error:  # Pillow may raise almost any exception on a damaged file
        if isinstance(error, OSError) and error.strerror:
            raise UserError(f"{path}: cannot be read ({error.strerror})") from None
        raise UserError(f"{path}: not a complete image in a known format ({', '.join(FORMATS)})") from None
    return np.array(fitted, dtype=np.uint8)


def save_image(array: ImageArray, path: Path) -> None:
    """Write uint8 [height, width, 3] as a PNG file."""
    pillow, _ = _pillow()
    try:
        pillow.fromarray(array).save(path, format="PNG")
    except OSError as error:
        raise disk_error(error, path) from error


def scale_pixels(images: ImageArray) -> Tensor:
    """Convert uint8 [B, size, size, 3] to float32 [B, 3, size, size] from −1 to 1."""
    pixels = torch.from_numpy(images)
    return pixels.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format) / 127.5 - 1


def _pillow() -> tuple[Any, Any]:
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise UserError("images need a package: pip install 'regard[image]'") from None
    return Image, ImageOps


def _to_rgb(image: "Image", pillow: Any) -> "Image":
    if image.mode.startswith("I;16"):  # Pillow would clip 16-bit values at 255
        return pillow.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        return pillow.alpha_composite(pillow.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")
