"""The attention of all layers and heads as HTML for notebooks. No script needed."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard.text.html_table import weight_table_html
from regard.text.weight_image import weight_image_html

MAX_HEADS = 64  # images of one kind of attention


def attention_html(
    kind: str, rows: Sequence[str], columns: Sequence[str], weights: NDArray[np.float32], opened: bool
) -> str:
    """Return the mean of weights [layers, heads, rows, columns] as a table, and an image of every head.

    `opened`: whether they are shown before the reader clicks on the title.
    """
    n_layers, n_heads = weights.shape[:2]
    title, body = f"{kind} attention, in percent", weight_table_html(rows, columns, weights.mean((0, 1)).tolist())
    if n_layers * n_heads > 1:
        title += f": mean of {n_layers * n_heads} heads"
        body += _head_images(weights)
    return f"<details{' open' * opened}><summary>{title}</summary>{body}</details>"


def _head_images(weights: NDArray[np.float32]) -> str:
    """Return a table of images, one row per layer and one column per head."""
    n_layers, n_heads = weights.shape[:2]
    if n_layers * n_heads > MAX_HEADS:
        return f"<p>{n_layers * n_heads} heads are too many to show; select(layer=0) keeps one layer</p>"
    head = "".join(f'<th scope="col">head {i}</th>' for i in range(n_heads))
    body = "".join(
        f'<tr><th scope="row">layer {layer}</th>'
        + "".join(
            f"<td>{weight_image_html(weights[layer, i], f'layer {layer}, head {i}')}</td>" for i in range(n_heads)
        )
        + "</tr>"
        for layer in range(n_layers)
    )
    return (
        '<div style="overflow-x:auto"><table style="font-size:85%">'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
