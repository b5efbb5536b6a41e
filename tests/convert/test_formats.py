"""The table of docs/ship.md: which shapes of models each format holds."""

from pathlib import Path

from regard.convert.export import export_format, format_names
from regard.convert.export_format import ExportOptions
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
