"""Which shapes of models each format holds, as docs/ship.md says, and which options it has."""

from pathlib import Path
from typing import get_args

import pytest

from regard.convert.export import export, export_format, format_names
from regard.convert.export_format import ExportOptions, Quantization
from regard.errors import UserError
from tests.convert.shapes import SEPARATE, SHAPES, bundle_of, sentencepiece

DOCS = Path(__file__).parents[2] / "docs" / "ship.md"
FORMATS = ["ctranslate2", "argos", "hf", "onnx", "web"]


def test_the_table_of_shapes_and_formats_is_right() -> None:
    assert sorted(FORMATS) == sorted(format_names())
    formats = [export_format(name) for name in FORMATS]
    tokenizer = sentencepiece()
    rows = []
    for shape in SHAPES:
        bundle = bundle_of(shape, tokenizer=None if shape == SEPARATE else tokenizer)
        holds = [chosen.problem(bundle, ExportOptions()) is None for chosen in formats]
        rows.append(f"| {shape} | {' | '.join('yes' if held else '–' for held in holds)} |")
    table = "\n".join([f"| model | {' | '.join(FORMATS)} |", "|---" * (len(FORMATS) + 1) + "|", *rows])
    assert table in DOCS.read_text(encoding="utf-8"), f"docs/ship.md must have this table:\n{table}"


@pytest.mark.parametrize("name", FORMATS)
def test_options_that_a_format_lacks_are_refused(name: str, tmp_path: Path) -> None:
    chosen = export_format(name)
    bundle_of(next(iter(SHAPES)), tokenizer=sentencepiece()).save(tmp_path / "model", card="")
    for quantization in set(get_args(Quantization)) - set(chosen.quantizations):
        with pytest.raises(UserError, match=f"it has no {quantization}; use "):
            export(tmp_path / "model", tmp_path / "out", name, quantization=quantization)
    if not chosen.has_shortlist:
        with pytest.raises(UserError, match="leave out --shortlist"):
            export(tmp_path / "model", tmp_path / "out", name, shortlist=5)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
