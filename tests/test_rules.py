"""Rules of the house that a machine can keep."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from regard.train.recipe import load_recipe, recipe_folder, recipe_names

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src" / "regard").rglob("*.py"))

# The right may import the left. `data` may import `text` alone, and what is of no layer.
LAYERS = [
    {"errors", "config", "files", "display", "__init__"},
    {"text"},
    {"nn", "data"},
    {"models"},
    {"search"},
    {"bundle"},
    {"translator", "writer", "classifier", "captioner"},
    {"loading"},
    {"train"},
    {"look"},
    {"demo", "serve"},
    {"cli"},
    {"__main__"},
]


def part(path: Path) -> str:
    inside = path.relative_to(ROOT / "src" / "regard")
    return inside.parts[0].removesuffix(".py")


def layer(name: str) -> int:
    return next(i for i, names in enumerate(LAYERS) if name in names)


def imports(path: Path) -> set[str]:
    """The parts of regard that a file imports when it is loaded or run."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "regard":
            inner = (node.module or "").split(".")[1:]
            found |= {inner[0]} if inner else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("regard.")}
    return found - {"__version__"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    own = part(path)
    if own == "__init__":
        return  # its names are looked up on first use
    for other in imports(path) - {own}:
        assert layer(other) < layer(own) or layer(own) == 0, f"{own} may not import {other}"
        if own == "data":
            assert other in {"text", "errors", "config", "files"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_are_short_and_safe(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 400
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = {a.name for a in node.names} | {getattr(node, "module", "") or ""}
            assert not names & {"pickle", "dill", "shelve", "marshal"}
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in {"eval", "exec", "torch.load", "torch.save", "yaml.load", "np.load"}, called
        if isinstance(node, ast.FunctionDef):
            size = (node.end_lineno or 0) - node.lineno + 1
            assert size <= 60, f"{node.name} has {size} lines"


def test_no_file_names_a_machine_path() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split()
    texts = [ROOT / name for name in tracked if Path(name).suffix in {".py", ".md", ".yaml", ".toml", ".txt", ""}]
    pattern = re.compile(r"/(root|work|home/\w+)/")
    offenders = [p for p in texts if p.name != "test_rules.py" and pattern.search(p.read_text(errors="replace"))]
    assert offenders == []


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_loads_and_says_what_it_is_for(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.train.steps > 0
    lines = (recipe_folder() / f"{name}.yaml").read_text().splitlines()
    assert lines[0].startswith("# ") and lines[1].startswith("# ")


def test_importing_regard_pulls_in_nothing_heavy() -> None:
    code = (
        "import sys, regard; print(sorted({m.split('.')[0] for m in sys.modules} & {'torch', 'numpy', 'matplotlib'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
