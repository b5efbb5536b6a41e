"""Figures: the one place that knows matplotlib, which is an extra."""

import io
import warnings
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unicodedata import category

from regard.errors import UserError
from regard.files import write_atomically


def new_figure(width: float, height: float) -> Any:
    """An empty figure of so many inches that needs no screen."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UserError("drawing needs a package: pip install 'regard[plot]'") from None
    return Figure(figsize=(width, height), layout="constrained")


def has_matplotlib() -> bool:
    return find_spec("matplotlib") is not None


def save_figure(figure: Any, path: Path) -> Path:
    """Write it in the format of the path's suffix. Text of an SVG stays text: a browser has the fonts."""
    from matplotlib import rc_context
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        if more := _fonts_for(frozenset(text.get_text()))[0]:
            text.set_fontfamily([*text.get_fontfamily(), *more])
    content = io.BytesIO()
    with rc_context({"svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # said once, by `undrawable`
        figure.savefig(content, format=path.suffix.removeprefix("."), dpi=150)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content.getvalue())
    return path


def characters_without_font(texts: Iterable[str]) -> str:
    """The characters that no font here can draw"""
    return "".join(sorted(_fonts_for(frozenset("".join(texts)))[1]))


@cache
def _fonts_for(characters: frozenset[str]) -> tuple[tuple[str, ...], frozenset[str]]:
    """Installed fonts for what matplotlib's own font lacks, the one with most of it first → (them, what none has)"""
    from matplotlib import font_manager

    own = _glyphs(font_manager.findfont(font_manager.FontProperties()))
    lacking = {c for c in characters if ord(c) not in own and category(c) not in ("Cf", "Mn", "Cc")}
    families: list[str] = []
    # Found anew, not in matplotlib's list: that one does not know what was installed after it was made.
    fonts = sorted(font_manager.findSystemFonts(), key=lambda path: ("Regular" not in path, "Sans" not in path, path))
    while lacking:
        best = max(fonts, key=lambda path: sum(ord(c) in _glyphs(path) for c in lacking), default=None)
        drawn = {c for c in lacking if ord(c) in _glyphs(best)} if best else set()
        if not best or not drawn:
            break
        font_manager.fontManager.addfont(best)
        families.append(font_manager.get_font(best).family_name)
        lacking -= drawn
    return tuple(families), frozenset(lacking)


@cache
def _glyphs(path: str) -> frozenset[int]:
    """What a font can draw; of bitmap fonts, as for emoji in colour, matplotlib can use nothing."""
    from matplotlib.ft2font import FT2Font

    try:
        font = FT2Font(path)
    except (RuntimeError, OSError):
        return frozenset()
    return frozenset(font.get_charmap()) if font.scalable else frozenset()
