"""The application as a whole: --help, --version, and one file per verb."""

import ast
import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import regard.cli
from regard.cli.app import VERBS, app, main, verb_module
from tests.cli.command import failed_in_one_line
from tests.cli.command import regard as run_regard

FOLDER = Path(regard.cli.__file__).parent
SHARED = {
    "__init__",
    "app",
    "decoding_options",
    "input",
    "option_groups",
    "options",
    "output",
    "pipeline",
    "synthetic_options",
    "worker_options",
}
"""The files of cli/ that are not verbs"""

DOCUMENTED_ORDER = (
    *(
        "demo",
        "data",
        "train",
        "adapt",
        "average",
        "verify",
        "backtranslate",
        "rounds",
        "distill",
        "translate",
        "evaluate",
        "attend",
        "attribute",
    ),
    *(
        "align",
        "explain",
        "lab",
        "export",
        "import",
        "serve",
        "generate",
        "classify",
        "embed",
        "caption",
        "compare",
        "bench",
    ),
)


def help_text(capsys: pytest.CaptureFixture[str], *verbs: str) -> str:
    app([*verbs, "--help"], standalone_mode=False)
    return capsys.readouterr().out


def test_help_is_quick_and_lists_the_verbs() -> None:
    done = run_regard("--help", timeout=10)
    for verb in ("demo", "train", "translate", "evaluate", "average"):
        assert verb in done.stdout
    loaded = "import sys, regard.cli; print([m for m in ('torch', 'matplotlib', 'sacrebleu') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True).stdout.strip() == "[]"
    assert run_regard("--version").stdout.startswith("regard ")


def test_help_lists_all_verbs_in_the_order_of_the_documentation(capsys: pytest.CaptureFixture[str]) -> None:
    lines = help_text(capsys).partition("Commands:\n")[2].splitlines()
    assert tuple(line.split()[0] for line in lines) == DOCUMENTED_ORDER
    assert not [line for line in lines if line.endswith("...")], "the first sentence of a verb's help fits on the line"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = help_text(capsys, verb)
    assert f" {verb} " in text.splitlines()[0] and text.splitlines()[2].strip()
    options = text.partition("Options:\n")[2].partition("\n\n")[0].splitlines()
    assert all(len(line.split()) > 1 for line in options if line.startswith("  -")), "every option has help"


def test_every_file_is_a_verb_or_shared() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == {*map(verb_module, VERBS), *SHARED}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_file_defines_exactly_one_command_or_group(verb: str) -> None:
    module = importlib.import_module(f"regard.cli.{verb_module(verb)}")
    names = [info.callback.__name__ for info in app.registered_commands if defined_in(module.__name__, info.callback)]
    for group in app.registered_groups:
        assert group.typer_instance and group.typer_instance.registered_callback
        if defined_in(module.__name__, group.typer_instance.registered_callback.callback):
            names.append(group.name)
    assert names == [verb_module(verb)]


def defined_in(module: str, function: Callable[..., object] | None) -> bool:
    return function is not None and function.__module__ == module


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_import_nothing_from_each_other(verb: str) -> None:
    for node in ast.walk(ast.parse((FOLDER / f"{verb_module(verb)}.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("regard.cli"):
            assert (node.module or "").rpartition(".")[2] in SHARED
            assert not [alias.name for alias in node.names if alias.name.startswith("_")]


def test_unknown_verbs_and_missing_arguments_are_errors(error_line: Callable[..., str]) -> None:
    assert "frobnicate" in error_line("frobnicate")
    assert "DIR" in error_line("translate")
    assert "fr-en" in error_line("demo", "--direction", "en-de")


def test_errors_end_the_process_with_one_line_and_exit_code_2(tmp_path: Path) -> None:
    assert "no model found" in failed_in_one_line(run_regard("translate", tmp_path))
    assert "frobnicate" in failed_in_one_line(run_regard("frobnicate"))


def test_running_out_of_memory_anywhere_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(standalone_mode: bool) -> None:
        raise MemoryError

    monkeypatch.setattr("regard.cli.app.app", run)
    with pytest.raises(SystemExit) as exit_code:
        main()
    assert exit_code.value.code == 2
    assert capsys.readouterr().err.startswith("regard: out of memory")
