import json
from pathlib import Path

import numpy as np
import pytest

from regard.errors import UserError
from regard.evaluate.captioning import attention_on_regions, read_regions


class FixedAttention:
    """Stands in for a captioner: 4 × 4 pixels in 2 × 2 regions, two heads, the same attention for every caption."""

    size, n_regions = 4, 2
    maps = np.array([[[1.0, 0.0], [0.0, 0.0]], [[0.25, 0.25], [0.25, 0.25]]])  # [heads, rows, columns]

    def record(self, image: Path, caption: str) -> "FixedAttention":
        self.target_tokens = (*(f"▁{word}" for word in caption.split()), "</s>")
        return self

    def region_weights(self, record: "FixedAttention") -> np.ndarray:
        return np.tile(self.maps[None, :, None], (1, 1, len(record.target_tokens), 1, 1))


PAIRS = [(Path("a.png"), "a red square"), (Path("without regions.png"), "nothing")]


def test_attention_is_summed_over_the_gold_region_of_each_word() -> None:
    gold = {"a.png": [(1, (0, 0, 2, 2)), (2, (0, 0, 4, 2))]}  # the first quarter, and the left half
    values = attention_on_regions(FixedAttention(), PAIRS, gold)  # type: ignore[arg-type]
    assert values == {
        "attention_on_region": pytest.approx(100 * (1 + 1 + 0.25 + 0.5) / 4),
        "attention_best_head": pytest.approx(100.0),
        "area_of_region": pytest.approx(100 * (0.25 + 0.5) / 2),
    }


def test_a_region_counts_by_how_much_of_it_is_in_the_box() -> None:
    gold = {"a.png": [(0, (0, 1, 2, 3))]}  # half of each upper region
    values = attention_on_regions(FixedAttention(), PAIRS, gold)  # type: ignore[arg-type]
    assert values["area_of_region"] == pytest.approx(25.0)
    assert values["attention_best_head"] == pytest.approx(50.0)


def test_regions_of_other_images_are_refused() -> None:
    with pytest.raises(UserError, match="same test set"):
        attention_on_regions(FixedAttention(), PAIRS, {"b.png": [(0, (0, 0, 2, 2))]})  # type: ignore[arg-type]


def test_a_region_of_a_word_that_the_caption_does_not_have_is_refused() -> None:
    with pytest.raises(UserError, match=r"a\.png: a region belongs to word 3, but the caption has words 0 to 2"):
        attention_on_regions(FixedAttention(), PAIRS, {"a.png": [(3, (0, 0, 2, 2))]})  # type: ignore[arg-type]


def test_gold_regions_are_read_by_file_name(tmp_path: Path) -> None:
    path = tmp_path / "regions.jsonl"
    path.write_text(json.dumps({"picture": "pictures/a.png", "regions": [{"word": 1, "box": [0, 1, 2, 3]}]}) + "\n")
    assert read_regions(path) == {"a.png": [(1, (0, 1, 2, 3))]}
    for content in ("no JSON", '{"picture": "a.png"}', '{"picture": "a", "regions": [{"word": 0, "box": [1, 2]}]}'):
        path.write_text(content)
        with pytest.raises(UserError, match="not a JSONL file"):
            read_regions(path)
