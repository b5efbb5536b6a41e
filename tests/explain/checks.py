"""Checks that hold for every explanation."""

import json
import re
from xml.etree import ElementTree

from regard.explain.explanation import Explanation
from regard.explain.render_html import render_html
from regard.explain.render_text import render_text

# Differences that the explanation is about; all others must be rounding errors.
REAL_DIFFERENCES = ("with a mask", "with positions", "as the model runs")


def assert_differences_are_rounding_errors(explanation: Explanation, limit: float) -> None:
    for table in (table for step in explanation.steps for table in step.tables):
        if table.name.startswith("largest difference") and not table.name.endswith(REAL_DIFFERENCES):
            assert float(table.cells[0][0]) < limit, table.name


def assert_renders(explanation: Explanation) -> None:
    """Check the rendering as text and JSON, and that the page is well-formed and loads nothing from elsewhere."""
    lines = render_text(explanation).splitlines()
    assert max(map(len, lines)) <= 100 and not any("nan" in line for line in lines)

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    tree = json.loads(explanation.to_json(), parse_constant=refuse)
    assert [step["says"] for step in tree["steps"]] == [step.text for step in explanation.steps]
    page = render_html(explanation)
    assert len(ElementTree.fromstring(page).findall(".//li")) == len(explanation.steps)
    assert "http" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", page) and "<script" not in page
    assert ("<svg" in page) == (explanation.plot is not None)
