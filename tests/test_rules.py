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

# A module may import from layers above its own and from its own package; the longest matching name decides.
LAYERS = [
    {"errors", "threads", "__init__"},
    {"paths", "ray_cluster"},
    {"config", "files", "memory"},
    {"verified_files"},
    {"manifest"},
    {"lock"},
    {"text"},
    {"data"},
    {"nn"},
    {"models"},
    {"search"},
    {"alignment.from_attention"},  # a setting that the bundle stores, so it lies below the rest of `alignment`
    {"bundle_files", "bundle_upgrade"},
    {"bundle"},
    {"convert"},
    {"pipelines"},
    {"alignment"},
    {"bulk"},
    {"documents"},
    {"evaluate"},
    {"train"},
    {"synthetic"},
    {"visualize"},
    {"explain", "compare"},
    {"labs"},
    {"demo", "serve"},
    {"cli"},
    {"__main__"},
]
KNOWN = {name for names in LAYERS for name in names}


def module_name(path: Path) -> str:
    """`text.vocab` for src/regard/text/vocab.py; the package itself for its __init__.py"""
    parts = path.relative_to(ROOT / "src" / "regard").with_suffix("").parts
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


def unit(module: str) -> str:
    """The entry of LAYERS that rules a module"""
    parts = module.split(".")
    return next(name for n in range(len(parts), 0, -1) if (name := ".".join(parts[:n])) in KNOWN)


def layer(module: str) -> int:
    return next(i for i, names in enumerate(LAYERS) if unit(module) in names)


def imported_modules(path: Path) -> set[str]:
    """The modules of regard that a file imports when it is loaded or run."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "regard":
            inner = (node.module or "").removeprefix("regard").removeprefix(".")
            modules |= {inner} if inner else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            modules |= {alias.name.removeprefix("regard.") for alias in node.names if alias.name.startswith("regard.")}
    return modules - {"__version__"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    module = module_name(path)
    if module == "__init__":
        return  # its names are looked up on first use
    for other in imported_modules(path):
        if other.split(".")[0] == module.split(".")[0] and unit(other) == unit(module):
            continue
        assert layer(other) < layer(module), f"{module} may not import {other}"


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


def test_no_two_classes_share_a_name() -> None:
    files: dict[str, list[str]] = {}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                files.setdefault(node.name, []).append(module_name(path))
    assert {name: modules for name, modules in files.items() if len(modules) > 1} == {}


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
