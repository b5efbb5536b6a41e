"""A page of one sentence's attention that stands alone: no server, no network, all data inside."""

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.images import ImageArray
from regard.errors import UserError
from regard.models.record import KINDS, AttentionRecord, Weights
from regard.text.html_table import sentence_pair_html, weight_table_html
from regard.text.labels import shorten_label, token_labels
from regard.text.vocab import SPECIALS
from regard.text.words import join_pieces, word_indices
from regard.visualize.heatmap import mean_weights
from regard.visualize.links import SIDES, THRESHOLD

MOST_CELLS = 40_000_000  # of all heads together; a byte each, and a third more in base64


@dataclass(frozen=True)
class InitialView:
    """What the page shows first; its controls change everything. None: the mean of all."""

    kind: str
    layer: int | None = None
    head: int | None = None
    words: bool = False
    view: str = "map"
    threshold: float = THRESHOLD


def render_page(
    record: AttentionRecord, source: str, target: str, opening: InitialView, picture: ImageArray | None = None
) -> str:
    """HTML with every kind, layer and head of the record, of a sentence and what became of it"""
    check_weight_count(sum(record.weights(kind).size for kind in KINDS))
    kinds = {kind: _kind(record, kind) for kind in KINDS if record.weights(kind).size}
    tree = {"kinds": kinds, "opening": vars(opening), "picture": None if picture is None else _picture(picture)}
    rows, columns = map(token_labels, record.axis_tokens(opening.kind))
    parts = {
        "title": escape(shorten_label(source)),
        "pair": sentence_pair_html(source, target),
        "table": weight_table_html(rows, columns, mean_weights(record, opening.kind).tolist()),
        "data": _inside_script(tree),
    }
    template = files("regard.visualize").joinpath("html_page.html").read_text(encoding="utf-8")
    # In one pass, so that a sentence of a mark's letters is no mark.
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: parts[mark[1]], template)


def check_weight_count(n: int) -> None:
    if n > MOST_CELLS:
        raise UserError(
            f"a page holds {MOST_CELLS // 10**6} million weights, and here are {n / 10**6:,.0f} million;"
            " split the text, or try --words"
        )


def quantised(weights: Weights) -> NDArray[np.uint8]:
    """A byte a weight: 255 √w. Small weights, of which there are many, keep more of their value than by 255 w."""
    return np.rint(255 * np.sqrt(np.clip(weights, 0.0, 1.0))).astype(np.uint8)


def _kind(record: AttentionRecord, kind: str) -> dict[str, Any]:
    rows, columns = map(_axis, record.axis_tokens(kind))
    weights = record.weights(kind)
    coded = b64encode(quantised(weights).tobytes()).decode("ascii")
    return {"sides": SIDES[kind], "rows": rows, "columns": columns, "shape": weights.shape, "weights": coded}


def _axis(tokens: Sequence[str]) -> dict[str, Any]:
    """Tokens, the word of each, and whether one of no word is special: as `AttentionRecord.words` gathers them"""
    places = word_indices(tokens)
    pieces: list[list[str]] = [[] for _ in range(max(places, default=-1) + 1)]
    for token, place in zip(tokens, places, strict=True):
        if place >= 0:
            pieces[place].append(token)
    return {
        "labels": token_labels(tokens),
        "word": places,
        "names": token_labels([join_pieces(piece) for piece in pieces]),
        "special": [token in SPECIALS for token in tokens],
    }


def _picture(picture: ImageArray) -> dict[str, Any]:
    return {"size": picture.shape[0], "rgb": b64encode(picture.tobytes()).decode("ascii")}


def _inside_script(tree: dict[str, Any]) -> str:
    """JSON in which nothing ends the script element that holds it"""
    text = json.dumps(tree, ensure_ascii=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
