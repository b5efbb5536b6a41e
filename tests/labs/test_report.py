from pathlib import Path

import pytest

from regard.labs.report import LabRun, save_index, save_lab_report, to_text
from regard.labs.result import Column, LabResult, LinePanel, ResultTable, compare_shares


def test_without_matplotlib_the_page_has_no_plot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.labs.plot.has_matplotlib", lambda: False)
    table = ResultTable(("a",), {"b": Column("b", ".1%")}, {("x",): {"b": 0.125}})
    panel = LinePanel("t", "x", "y", [1], {"": [1]})
    result = LabResult("Why?", "Setup.", table, ("One.", "Two.", "Three."), (panel,))
    run = LabRun("core", result, "regard lab core", 101.4)
    [page] = save_lab_report(run, tmp_path)
    assert "took 101 seconds" in page.read_text()
    assert "![" not in page.read_text() and "| x | 12.5% |" in page.read_text()
    assert to_text(run).splitlines()[-3:] == ["One.", "Two.", "Three."]
    assert "[Why?](core.md)" in save_index([run], tmp_path).read_text()


def test_a_table_formats_its_numbers_and_gives_them_back() -> None:
    columns = {"share": Column("share, %", ".0%"), "count": Column("count", ",.0f")}
    table = ResultTable(("model", "size"), columns, {("a", "1"): {"share": 0.5, "count": 1000}})
    assert table.header() == ("model", "size", "share, %", "count")
    assert table.formatted_rows() == [("a", "1", "50%", "1,000")]
    assert table.value("share", "a", "1") == 0.5 and table.values("count") == [1000]


def test_a_notebook_shows_question_table_plot_and_answer() -> None:
    table = ResultTable(("model",), {"score": Column("score", ".0%")}, {("<a>",): {"score": 0.5}})
    panel = LinePanel("scores & lengths", "x", "y", (1.0, 2.0), {"a": (0.1, 0.2)})
    shown = LabResult("Why?", "setup", table, ("One.", "Two.", "Three."), (panel,))._repr_html_()
    assert "<strong>Why?</strong>" in shown and "<td>&lt;a&gt;</td><td>50%</td>" in shown
    assert 'alt="scores &amp; lengths"' in shown and "data:image/png;base64," in shown and "One. Two. Three." in shown


def test_shares_are_compared_in_words() -> None:
    assert compare_shares(0.5, 0.9, "with") == "40.0 points fewer than with"
    assert compare_shares(0.9, 0.5, "with") == "40.0 points more than with"
    assert compare_shares(0.5, 0.51, "with") == "about as many as with"
