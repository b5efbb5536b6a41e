import json
from pathlib import Path

import numpy as np

from regard.look.curves import draw_curves
from regard.look.heatmap import draw_heatmap, readable
from regard.models.record import AttentionRecord


def test_a_map_and_curves_are_drawn(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)

    def weights(rows: int, columns: int) -> np.ndarray:
        return generator.dirichlet(np.ones(columns), size=(2, 4, rows)).astype(np.float32)

    record = AttentionRecord(
        ("▁the", "▁cat", "</s>"), ("▁le", "▁ch", "at", "</s>"), weights(3, 3), weights(4, 4), weights(4, 3)
    )
    for suffix, magic in ((".png", b"\x89PNG"), (".svg", b"<?xml")):
        assert draw_heatmap(record, tmp_path / f"map{suffix}").read_bytes().startswith(magic)
    rows = [
        {"step": 1, "loss": 3.0},
        {"step": 2, "loss": 2.0},
        {"step": 2, "valid_loss": 2.5, "bleu": 1.0, "chrf": 9.0},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows) + '{"step": 3, "lo')
    assert [p.name for p in draw_curves(tmp_path)] == ["curves.png", "curves.svg"]


def test_pieces_are_readable() -> None:
    assert [readable(t) for t in ("▁house", "s", "</s>", "▁", "<0xE2>")] == ["house", "-s", "</s>", "▁", "<0xE2>"]
