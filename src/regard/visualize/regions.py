"""The regions of an image that each word of its caption attends to."""

from math import isqrt
from pathlib import Path

import numpy as np

from regard.data.images import ImageArray
from regard.models.record import AttentionRecord
from regard.pipelines.captioner import RegionWeights
from regard.text.labels import token_labels
from regard.visualize.figure import new_figure, save_figure
from regard.visualize.heatmap import check_token_count, mean_weights

_MAX_ACROSS = 6  # panels per row


def draw_regions(record: AttentionRecord, image: ImageArray, path: Path, title: str = "") -> Path:
    """Draw the image, then one panel per word, bright where the word attends; all panels share one scale."""
    weights = mean_weights(record, "cross")
    labels = token_labels(record.target_tokens)
    check_token_count(len(labels))
    n_regions = isqrt(weights.shape[1])  # per side
    n_down = -(-(len(labels) + 1) // _MAX_ACROSS)
    n_across = min(_MAX_ACROSS, len(labels) + 1)
    figure = new_figure(1.7 * n_across, 2.0 * n_down + 0.3 * bool(title))
    panels = figure.subplots(n_down, n_across, squeeze=False).flatten()
    max_weight = float(weights.max())
    for axes in panels:
        axes.axis("off")
    panels[0].imshow(image)
    for axes, label, row in zip(panels[1:], labels, weights, strict=False):
        axes.imshow(shade_image(image, row.reshape(n_regions, n_regions) / max_weight))
        axes.set_title(label, fontsize=10, parse_math=False)
    if title:
        figure.supxlabel(f"{title}; brightest: {max_weight:.2f}", fontsize=8, color="0.4")
    return save_figure(figure, path)


def shade_image(image: ImageArray, brightness: RegionWeights) -> ImageArray:
    """Darken an image by region: brightness [rows, columns] 1 leaves a region as it is, 0 leaves a quarter."""
    height, width = image.shape[:2]
    rows, columns = (np.arange(n) * k // n for n, k in zip((height, width), brightness.shape, strict=True))
    shaded: ImageArray = (image * (0.25 + 0.75 * brightness[rows][:, columns])[..., None]).astype(np.uint8)
    return shaded
