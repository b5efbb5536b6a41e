"""A stand-alone HTML page of one sentence's attention: all data and scripts inside, no server, no network."""

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import asdict, dataclass
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
from regard.visualize.links import SIDE_TITLES, THRESHOLD

MAX_WEIGHTS = 40_000_000  # of all heads together; one byte each, plus a third for base64


@dataclass(frozen=True)
class InitialView:
    """What the page shows when it opens; its controls can change all of it. `layer`, `head` None: the mean of all."""

    kind: str
    layer: int | None = None
    head: int | None = None
    words: bool = False
    view: str = "map"
    threshold: float = THRESHOLD


def render_page(
    record: AttentionRecord, source: str, output: str, initial: InitialView, image: ImageArray | None = None
) -> str:
    """Return a page with every kind, layer and head of a record; `source` and `output` are shown above it."""
    check_weight_count(sum(record.weights(kind).size for kind in KINDS))
    kinds = {kind: _kind_data(record, kind) for kind in KINDS if record.weights(kind).size}
    data = {"kinds": kinds, "initial": asdict(initial), "image": None if image is None else _image_data(image)}
    rows, columns = map(token_labels, record.axis_tokens(initial.kind))
    parts = {
        "title": escape(shorten_label(source)),
        "pair": sentence_pair_html(source, output),
        "table": weight_table_html(rows, columns, mean_weights(record, initial.kind).tolist()),
        "data": _script_json(data),
    }
    template = files("regard.visualize").joinpath("html_page.html").read_text(encoding="utf-8")
    # One pass over the template, so that a sentence that contains "{{data}}" is not replaced too.
    return re.sub(r"\{\{(\w+)\}\}", lambda placeholder: parts[placeholder[1]], template)


def check_weight_count(n: int) -> None:
    """Refuse more weights than a page can hold."""
    if n > MAX_WEIGHTS:
        raise UserError(
            f"{n / 10**6:,.0f} million weights are too many for a page (at most {MAX_WEIGHTS // 10**6} million);"
            " split the text, or try --words"
        )


def quantise(weights: Weights) -> NDArray[np.uint8]:
    """Store each weight in one byte, as 255 √w. Most weights are small, and the root keeps small ones more precise."""
    return np.rint(255 * np.sqrt(np.clip(weights, 0.0, 1.0))).astype(np.uint8)


def _kind_data(record: AttentionRecord, kind: str) -> dict[str, Any]:
    rows, columns = map(_axis_data, record.axis_tokens(kind))
    weights = record.weights(kind)
    return {
        "sideTitles": SIDE_TITLES[kind],
        "rows": rows,
        "columns": columns,
        "shape": weights.shape,
        "weights": b64encode(quantise(weights).tobytes()).decode("ascii"),
    }


def _axis_data(tokens: Sequence[str]) -> dict[str, Any]:
    """Return labels of tokens and words; the page merges tokens into words as `AttentionRecord.merge_words` does."""
    indices = word_indices(tokens)
    words: list[list[str]] = [[] for _ in range(max(indices, default=-1) + 1)]
    for token, index in zip(tokens, indices, strict=True):
        if index >= 0:
            words[index].append(token)
    return {
        "tokens": token_labels(tokens),
        "wordIndex": indices,
        "words": token_labels([join_pieces(pieces) for pieces in words]),
        "isSpecial": [token in SPECIALS for token in tokens],
    }


def _image_data(image: ImageArray) -> dict[str, Any]:
    return {"size": image.shape[0], "rgb": b64encode(image.tobytes()).decode("ascii")}


def _script_json(data: dict[str, Any]) -> str:
    """Return JSON that cannot end the script element around it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
