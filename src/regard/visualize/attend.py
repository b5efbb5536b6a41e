"""Running a model on an input and showing its attention as a figure, a page or data: what `regard attend` does."""

from dataclasses import dataclass
from pathlib import Path

from regard.data.images import ImageArray
from regard.errors import UserError
from regard.files import write_atomically
from regard.models.record import KINDS, AttentionRecord
from regard.paths import check_output_file
from regard.pipelines.base import Pipeline
from regard.text.words import word_indices
from regard.visualize.figure import characters_without_font
from regard.visualize.grid import draw_grid
from regard.visualize.heatmap import check_token_count, draw_heatmap, head_weights
from regard.visualize.html_page import InitialView, check_weight_count, render_page
from regard.visualize.links import THRESHOLD, draw_links
from regard.visualize.regions import draw_regions

FIGURES, DATA = (".png", ".svg"), (".json", ".safetensors")
FORMATS = (*FIGURES, ".html", *DATA)
LAYOUTS = ("map", "grid", "links", "picture")
_MAX_TOKENS = {".json": 512, ".safetensors": 2048}  # the number of weights grows with the square of the tokens
_IMAGE_SIZE = 160  # pixels per side of the image that is shown


@dataclass(frozen=True)
class AttendResult:
    """An input, the model's output for it, and the attention recorded on the way."""

    source: str
    output: str
    record: AttentionRecord
    image: ImageArray | None = None
    """The input of a captioner"""


def attend_to(pipeline: Pipeline, source: str, target: str | None = None, rank: int = 1) -> AttendResult:
    """Run a model on a text, or a captioner on an image file, and record its attention.

    `target` is an output that the model is forced to generate; `rank` selects one of its own best outputs.
    """
    if not source.strip():
        raise UserError("the text is empty; give at least one word")
    encoded = pipeline.encode(source)
    ids = pipeline.target_ids(encoded, target, rank)
    _, record = pipeline.trace(encoded, ids)
    image = pipeline.thumbnail(source, _IMAGE_SIZE)
    shown_source = source if image is None else Path(source).name
    return AttendResult(shown_source, pipeline.output_text(source, ids), record, image)


@dataclass(frozen=True)
class View:
    """What part of the attention to show, and how. `layer`, `head` None: all."""

    kind: str | None = None
    """encoder, decoder or cross; None: the first of cross, decoder, encoder that the model has"""
    layer: int | None = None
    head: int | None = None
    words: bool = False
    """Merge tokens into words"""
    layout: str | None = None
    """One of LAYOUTS; None: picture for a captioner, otherwise map"""
    threshold: float = THRESHOLD

    def check_size(self, tokens: list[str], out: Path | None) -> None:
        """Refuse an input that is too large to show, before the model runs."""
        n = len({word for word in word_indices(tokens) if word >= 0} if self.words else tokens)
        if out is None or out.suffix in FIGURES:
            check_token_count(n)
        elif out.suffix == ".html":
            check_weight_count(n * n)
        elif n > (limit := _MAX_TOKENS[out.suffix]):
            raise UserError(f"{n:,} tokens are too many for {out.suffix} (at most {limit:,}); split the text")

    def choose_kind(self, record: AttentionRecord) -> str:
        """Return the kind of attention to show; refuse one that the model does not have."""
        kind = self.kind or next((kind for kind in reversed(KINDS) if record.weights(kind).size), "cross")
        head_weights(record, kind)
        return kind

    def select(self, record: AttentionRecord) -> AttentionRecord:
        """Return the part of the record that is shown."""
        part = record.select(self.layer, self.head, self.choose_kind(record))
        return part.merge_words() if self.words else part

    def title(self, kind: str) -> str:
        match self.layer, self.head:
            case None, None:
                heads = "mean of all layers and heads"
            case None, head:
                heads = f"head {head}, mean of all layers"
            case layer, None:
                heads = f"layer {layer}, mean of all heads"
            case layer, head:
                heads = f"layer {layer}, head {head}"
        return f"{kind} attention, {heads}"


def check_output(out: Path | None, view: View) -> None:
    """Refuse an output file that cannot be written or cannot show the chosen layout."""
    if out and (out.suffix not in FORMATS or not out.parent.is_dir()):
        raise UserError(f"--out {out}: choose a name that ends in {', '.join(FORMATS)}, in a folder that exists")
    if out:
        check_output_file(out, "--out")
    if view.layout not in (None, *LAYOUTS):
        raise UserError(f"--view {view.layout} is unknown; choose one of {', '.join(LAYOUTS)}")
    if view.layout and (out is None or out.suffix in DATA):
        raise UserError(f"--view {view.layout} needs --out with {', '.join((*FIGURES, '.html'))}")
    if view.layout == "grid" and (view.layer, view.head) != (None, None):
        raise UserError("--view grid shows every head; leave --layer and --head out")


def save_view(result: AttendResult, view: View, out: Path) -> Path:
    """Write the view in the format of the file's suffix."""
    kind, part = view.choose_kind(result.record), view.select(result.record)
    layout = view.layout or ("map" if result.image is None else "picture")
    if layout == "picture" and result.image is None:
        raise UserError("--view picture is for captioners; choose map, grid or links")
    match out.suffix:
        case ".json":
            write_atomically(out, part.to_json().encode())
        case ".safetensors":
            write_atomically(out, part.to_safetensors())
        case ".html":
            initial = InitialView(kind, view.layer, view.head, view.words, layout, view.threshold)
            page = render_page(result.record, result.source, result.output, initial, result.image)
            write_atomically(out, page.encode())
        case _:
            _draw(part, kind, layout, view, result, out)
    return out


def _draw(part: AttentionRecord, kind: str, layout: str, view: View, result: AttendResult, out: Path) -> None:
    title = view.title(kind)
    match layout:
        case "picture":
            assert result.image is not None
            draw_regions(part, result.image, out, title)
        case "grid":
            draw_grid(part, out, kind, f"{kind} attention")
        case "links":
            draw_links(part, out, kind, title, view.threshold)
        case "map":
            draw_heatmap(part, out, kind, title)


def missing_characters(result: AttendResult, view: View, out: Path) -> str:
    """Return the characters that the figure lacks because no installed font has them."""
    tokens = view.select(result.record).axis_tokens(view.choose_kind(result.record))
    return characters_without_font(token for side in tokens for token in side) if out.suffix == ".png" else ""
