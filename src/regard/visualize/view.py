"""What of a scene is looked at, and how: as a picture, a page or data."""

from dataclasses import dataclass
from pathlib import Path

from regard.errors import UserError
from regard.files import write_atomically
from regard.models.record import KINDS, AttentionRecord
from regard.text.words import word_indices
from regard.visualize.figure import undrawable
from regard.visualize.grid import draw_grid
from regard.visualize.heatmap import check_fits, draw_heatmap, heads_of
from regard.visualize.html_page import Opening, check_cells, page_of
from regard.visualize.links import THRESHOLD, draw_links
from regard.visualize.regions import draw_regions
from regard.visualize.scene import AttendResult

PICTURES, DATA = (".png", ".svg"), (".json", ".safetensors")
FORMATS = (*PICTURES, ".html", *DATA)
_MOST_IN = {".json": 512, ".safetensors": 2048}  # tokens: every head's weights grow with their square
SHAPES = ("map", "grid", "links", "picture")


@dataclass(frozen=True)
class View:
    """`kind` None: the first that the model has. `layer`, `head` None: all of them."""

    kind: str | None = None
    layer: int | None = None
    head: int | None = None
    words: bool = False
    shape: str | None = None
    """One of SHAPES; None: the picture, where there is one, or the map"""
    threshold: float = THRESHOLD

    def check(self, tokens: list[str], out: Path | None) -> None:
        """Refuse, before the model is at work, what could not be shown in the end."""
        n = len({word for word in word_indices(tokens) if word >= 0} if self.words else tokens)
        if out is None or out.suffix in PICTURES:
            check_fits(n)
        elif out.suffix == ".html":
            check_cells(n * n)
        elif n > (most := _MOST_IN[out.suffix]):
            raise UserError(f"{n:,} tokens are too many for {out.suffix}, which holds {most:,}; split the text")

    def kind_of(self, record: AttentionRecord) -> str:
        """The kind that is looked at; one that the model does not have is refused."""
        found = self.kind or next((kind for kind in reversed(KINDS) if record.weights(kind).size), "cross")
        heads_of(record, found)
        return found

    def part_of(self, record: AttentionRecord) -> AttentionRecord:
        part = record.only(self.layer, self.head, self.kind_of(record))
        return part.words() if self.words else part

    def title(self, kind: str) -> str:
        """Of a picture: which heads it shows"""
        match self.layer, self.head:
            case None, None:
                which = "mean of all layers and heads"
            case None, head:
                which = f"head {head}, mean of all layers"
            case layer, None:
                which = f"layer {layer}, mean of all heads"
            case layer, head:
                which = f"layer {layer}, head {head}"
        return f"{kind} attention, {which}"


def check_out(out: Path | None, view: View) -> None:
    """Refuse a file that could not be written, or would not show what is asked for."""
    if out and (out.suffix not in FORMATS or not out.parent.is_dir()):
        raise UserError(f"--out {out}: must be a file {', '.join(FORMATS)} in a folder that exists")
    if view.shape not in (None, *SHAPES):
        raise UserError(f"--view {view.shape}: unknown; choose one of {', '.join(SHAPES)}")
    if view.shape and (out is None or out.suffix in DATA):
        raise UserError(f"--view {view.shape} needs --out with {', '.join((*PICTURES, '.html'))}")
    if view.shape == "grid" and (view.layer, view.head) != (None, None):
        raise UserError("--view grid shows every head; leave --layer and --head out")


def save_view(scene: AttendResult, view: View, out: Path) -> Path:
    """Write the scene in the format of the path's suffix."""
    kind, part = view.kind_of(scene.record), view.part_of(scene.record)
    shape = view.shape or ("map" if scene.picture is None else "picture")
    if shape == "picture" and scene.picture is None:
        raise UserError("--view picture is for models that caption pictures; choose map, grid or links")
    match out.suffix:
        case ".json":
            write_atomically(out, part.to_json().encode())
        case ".safetensors":
            write_atomically(out, part.to_safetensors())
        case ".html":
            opening = Opening(kind, view.layer, view.head, view.words, shape, view.threshold)
            page = page_of(scene.record, scene.given, scene.said, opening, scene.picture)
            write_atomically(out, page.encode())
        case _:
            _draw(part, kind, shape, view, scene, out)
    return out


def _draw(part: AttentionRecord, kind: str, shape: str, view: View, scene: AttendResult, out: Path) -> None:
    title = view.title(kind)
    match shape:
        case "picture":
            assert scene.picture is not None
            draw_regions(part, scene.picture, out, title)
        case "grid":
            draw_grid(part, out, kind, f"{kind} attention")
        case "links":
            draw_links(part, out, kind, title, view.threshold)
        case "map":
            draw_heatmap(part, out, kind, title)


def unseen(scene: AttendResult, view: View, out: Path) -> str:
    """Characters that the picture lacks, since no font here has them"""
    tokens = view.part_of(scene.record).tokens(view.kind_of(scene.record))
    return undrawable(token for side in tokens for token in side) if out.suffix == ".png" else ""
