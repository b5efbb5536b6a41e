"""Matplotlib figures: creating them, saving them, and choosing fonts. Matplotlib is an optional dependency."""

import io
import warnings
from base64 import b64encode
from collections.abc import Iterable
from functools import cache
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unicodedata import category

from regard.errors import UserError
from regard.files import write_atomically


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure of this size in inches. It needs no display."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UserError("drawing needs matplotlib; install it with: pip install 'regard[plot]'") from None
    return Figure(figsize=(width, height), layout="constrained")


def has_matplotlib() -> bool:
    return find_spec("matplotlib") is not None


def save_figure(figure: Any, path: Path) -> Path:
    """Write a figure in the format of the path's suffix. Text in an SVG stays text, drawn with the browser's fonts."""
    content = figure_bytes(figure, path.suffix.removeprefix("."), dpi=150)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content)
    return path


def figure_image_html(figure: Any, name: str) -> str:
    """Return a figure as an image inside HTML; `name` is shown when the mouse points at it."""
    data, label = b64encode(figure_bytes(figure, "png", dpi=80)).decode("ascii"), escape(name)
    return f'<img src="data:image/png;base64,{data}" alt="{label}" title="{label}">'


def figure_bytes(figure: Any, kind: str, dpi: int) -> bytes:
    """Return a figure as the content of a file of the format `kind`."""
    from matplotlib import rc_context
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        if fallbacks := _fallback_fonts(frozenset(text.get_text()))[0]:
            text.set_fontfamily([*text.get_fontfamily(), *fallbacks])
    content = io.BytesIO()
    with rc_context({"svg.fonttype": "none"}), warnings.catch_warnings():
        # `characters_without_font` reports missing characters once for the whole figure.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(content, format=kind, dpi=dpi)
    return content.getvalue()


def characters_without_font(texts: Iterable[str]) -> str:
    """Return the characters of these texts that no installed font can draw."""
    return "".join(sorted(_fallback_fonts(frozenset("".join(texts)))[1]))


@cache
def _fallback_fonts(characters: frozenset[str]) -> tuple[tuple[str, ...], frozenset[str]]:
    """Find installed fonts for characters that matplotlib's default font lacks.

    Returns the font families, the one that covers most characters first, and the characters that no font has.
    """
    from matplotlib import font_manager

    default = _glyphs(font_manager.findfont(font_manager.FontProperties()))
    missing = {c for c in characters if ord(c) not in default and category(c) not in ("Cf", "Mn", "Cc")}
    families: list[str] = []
    # Search the system again: matplotlib's cached list lacks fonts that were installed after it was made.
    fonts = sorted(font_manager.findSystemFonts(), key=lambda path: ("Regular" not in path, "Sans" not in path, path))
    while missing:
        best = max(fonts, key=lambda path: sum(ord(c) in _glyphs(path) for c in missing), default=None)
        covered = {c for c in missing if ord(c) in _glyphs(best)} if best else set()
        if not best or not covered:
            break
        font_manager.fontManager.addfont(best)
        families.append(font_manager.get_font(best).family_name)
        missing -= covered
    return tuple(families), frozenset(missing)


@cache
def _glyphs(path: str) -> frozenset[int]:
    """Return the code points that a font can draw; none for bitmap fonts (colour emoji): matplotlib cannot use them."""
    from matplotlib.ft2font import FT2Font

    try:
        font = FT2Font(path)
    except (RuntimeError, OSError):
        return frozenset()
    return frozenset(font.get_charmap()) if font.scalable else frozenset()
