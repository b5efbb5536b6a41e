"""Attention as a picture that notebooks show."""

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from regard.errors import UserError
from regard.models.record import AttentionRecord
from regard.visualize.attend import LAYOUTS, AttendResult, View, save_view


@dataclass(frozen=True)
class Picture:
    """The content of a PNG file."""

    png: bytes = field(repr=False)

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """Return the picture and its width on the screen, two thirds of that in the file for sharp lines."""
        return self.png, {"width": 2 * int.from_bytes(self.png[16:20]) // 3}


def draw_attention(
    record: AttentionRecord,
    view: str = "map",
    *,
    kind: str | None = None,
    layer: int | None = None,
    head: int | None = None,
    words: bool = False,
) -> Picture:
    """Draw the attention of a record as a "map", as a "grid" of all heads, or as "links" between the tokens.

    `kind` is encoder, decoder or cross; the map and the links are the mean of all layers and heads, or those chosen.
    `words` merges tokens into words.

    >>> record = regard.load(translator_dir).record("a b c")
    >>> picture = regard.draw_attention(record, "grid", kind="encoder")
    >>> picture.png[1:4]
    b'PNG'
    """
    if view not in LAYOUTS[:3]:
        raise UserError(f"view '{view}' is unknown; choose one of {', '.join(LAYOUTS[:3])}")
    with TemporaryDirectory() as folder:
        chosen = View(kind, layer, head, words, layout=view)
        return Picture(save_view(AttendResult("", "", record), chosen, Path(folder) / "picture.png").read_bytes())
