"""docs/lectures: every row is defined, every command can be run, and every link to the page can be opened."""

import json
import re
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import typer

from regard.cli.app import app
from regard.explain.lectures import LECTURES, find_lecture
from regard.explain.topics import find_topic
from regard.labs import lab_named
from regard.train.recipe import load_recipe

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "lectures"
PAGES = sorted(FOLDER.glob("*.md"))
ROWS = {f"{letter}{i}" for letter, n in (("S", 19), ("P", 27), ("W", 13), ("Q", 7)) for i in range(1, n + 1)}


def commands(page: Path) -> list[str]:
    """All commands in backticks that are complete"""
    found = re.findall(r"`(regard [^`]+)`", page.read_text(encoding="utf-8"))
    return [command for command in found if "…" not in command and "NAME" not in command]


def check_command(command: str) -> None:
    """Parse a command as the command line does, without running it, and look up the names in it."""
    verb, *arguments = shlex.split(command)[1:]
    parser: Any = typer.main.get_command(app)
    parser = parser.commands[verb]
    if hasattr(parser, "commands"):  # a verb with verbs of its own, such as bench; `data NAME` is `data builtin NAME`
        arguments = arguments if arguments[0] in parser.commands else ["builtin", *arguments]
        parser, arguments = parser.commands[arguments[0]], arguments[1:]
    if not arguments:
        return  # a verb that the text speaks of
    values = parser.make_context(verb, arguments).params
    checks = {"topic": find_topic, "lecture": find_lecture, "recipe": load_recipe}
    for name, check in {**checks, **({"name": lab_named} if verb == "lab" else {})}.items():
        if values.get(name) is not None:
            check(values[name])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_can_be_run(page: Path) -> None:
    assert commands(page)
    for command in commands(page):
        check_command(command)


@pytest.mark.parametrize(
    "command",
    ["regard explain nothing", "regard lab nothing", "regard demo --nothing", "regard train a b --out c --recipe d"],
)
def test_the_check_of_commands_finds_wrong_ones(command: str) -> None:
    with pytest.raises(Exception, match=r"unknown|[Nn]o such option"):
        check_command(command)


def test_every_row_is_defined_once() -> None:
    defined = re.findall(r"^\| ([SPWQ]\d+) \|", (FOLDER / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(defined) == len(set(defined)) and set(defined) == ROWS


@pytest.mark.parametrize("lecture", LECTURES, ids=lambda lecture: lecture.name)
def test_a_page_has_all_subjects_in_order_with_their_commands(lecture: object) -> None:
    assert isinstance(lecture, type(LECTURES[0]))
    page = (FOLDER / f"{lecture.name}.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \d+ \|.*", page, re.MULTILINE)
    assert len(rows) == len(lecture.subjects)
    for row, subject in zip(rows, lecture.subjects, strict=True):
        cells = [cell.strip() for cell in row.strip("|").split(" | ")]
        assert cells[1] == subject.title and all(f"`{command}`" in cells[2] for command in subject.commands)
        assert cells[4].split(", ") == list(subject.rows) and set(subject.rows) <= ROWS


def test_links_to_the_page_use_its_fields() -> None:
    source = (ROOT / "web" / "src" / "state" / "choice.ts").read_text(encoding="utf-8")
    fields = set(re.findall(r"^  (\w+): ", source[source.index("DEFAULTS") :], re.MULTILINE))
    links = [link for page in PAGES for link in re.findall(r"\((http://127\.0\.0\.1:8000/#[^)]*)\)", page.read_text())]
    assert len(links) > 10
    for link in links:
        assert set(parse_qs(urlsplit(link).fragment)) <= fields


@pytest.mark.parametrize("lecture", LECTURES, ids=lambda lecture: lecture.name)
def test_sections_of_notebooks_exist(lecture: object) -> None:
    assert isinstance(lecture, type(LECTURES[0]))
    page = (FOLDER / f"{lecture.name}.md").read_text(encoding="utf-8")
    notebook = json.loads((ROOT / "notebooks" / f"{lecture.name}.ipynb").read_text(encoding="utf-8"))
    lines = [line.strip() for cell in notebook["cells"] for line in cell["source"] if line.startswith("## ")]
    headings = {re.sub(r" \[[^]]*\]", "", line.removeprefix("## ")) for line in lines}
    sections = re.findall(r"notebook: \*([^*]+)\*", page)
    assert len(sections) >= 5 and set(sections) <= headings
