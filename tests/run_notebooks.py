"""Runs the code of notebooks without Jupyter: python run_notebooks.py A.ipynb B.ipynb …

What a cell ends with is turned into HTML, an image or text as in Jupyter, so that a mistake there is noticed.
"""

import ast
import json
import sys
from pathlib import Path
from typing import Any


def code_cells(path: Path) -> list[str]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def run_cell(code: str, names: dict[str, Any]) -> None:
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), names)
    if last:
        assert isinstance(last, ast.Expr)
        show(eval(compile(ast.Expression(last.value), "<cell>", "eval"), names))


def show(value: Any) -> None:
    for method in ("_repr_html_", "_repr_png_", "__repr__"):
        if hasattr(value, method):
            assert value is None or getattr(value, method)()
            return


if __name__ == "__main__":
    for name in sys.argv[1:]:
        names: dict[str, Any] = {}
        for code in code_cells(Path(name)):
            print(f"{Path(name).name}: {code.splitlines()[0]}", flush=True)
            run_cell(code, names)
