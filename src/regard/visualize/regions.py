"""Where a captioner looked: the weights of each word over the picture."""

from math import isqrt
from pathlib import Path

import numpy as np

from regard.data.images import ImageArray
from regard.models.record import AttentionRecord
from regard.pipelines.captioner import RegionWeights
from regard.text.labels import token_labels
from regard.visualize.figure import new_figure, save_figure
from regard.visualize.heatmap import check_token_count, mean_weights

_ACROSS = 6  # panels in a row


def draw_regions(record: AttentionRecord, picture: ImageArray, path: Path, title: str = "") -> Path:
    """The picture, then a panel a word, bright where the word looked; one scale for all of them."""
    weights = mean_weights(record, "cross")
    names = token_labels(record.target_tokens)
    check_token_count(len(names))
    side = isqrt(weights.shape[1])
    down = -(-(len(names) + 1) // _ACROSS)
    across = min(_ACROSS, len(names) + 1)
    figure = new_figure(1.7 * across, 2.0 * down + 0.3 * bool(title))
    panels = figure.subplots(down, across, squeeze=False).flatten()
    strongest = float(weights.max())
    for axes in panels:
        axes.axis("off")
    panels[0].imshow(picture)
    for axes, name, row in zip(panels[1:], names, weights, strict=False):
        axes.imshow(lit(picture, row.reshape(side, side) / strongest))
        axes.set_title(name, fontsize=10, parse_math=False)
    if title:
        figure.supxlabel(f"{title}; brightest: {strongest:.2f}", fontsize=8, color="0.4")
    return save_figure(figure, path)


def lit(picture: ImageArray, light: RegionWeights) -> ImageArray:
    """The picture under a light [rows, columns] of 0 to 1: at 0 a quarter of it is seen."""
    height, width = picture.shape[:2]
    down, across = (np.arange(n) * k // n for n, k in zip((height, width), light.shape, strict=True))
    shone: ImageArray = (picture * (0.25 + 0.75 * light[down][:, across])[..., None]).astype(np.uint8)
    return shone
