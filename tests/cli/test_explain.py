"""`regard explain`: topics by name and row, with the lecture's numbers or with a model."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.explain.render_text import render_text
from regard.explain.topics import TOPICS, find_topic, list_topics
from tests.cli.command import regard


def test_topics_are_listed_and_explained_with_the_lectures_numbers() -> None:
    assert [line.split()[0] for line in list_topics().splitlines()] == [topic.name for topic in TOPICS]
    assert regard("explain").stdout.rstrip() == list_topics()
    assert regard("explain", "w5").stdout.rstrip() == render_text(find_topic("attention").explain_lecture())


def test_topics_are_explained_with_a_model(toy_run: Path, tmp_path: Path) -> None:
    model = ("--model", toy_run, "--text", "a b c d")
    tree = json.loads(regard("explain", "attention", *model, "--layer", 1, "--json").stdout)
    assert "layer 1" in tree["title"] and set(tree) == {"title", "steps", "result", "notes"}
    assert set(tree["steps"][0]) == {"says", "formula", "tables"}
    assert set(tree["steps"][0]["tables"][0]) == {"name", "rows", "columns", "cells"}
    assert regard("explain", "W10", *model, "--out", tmp_path / "plot.png").returncode == 0
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["atention"], "choose one of dot, cosine"),
        (["dot", "--out", "dot.png"], "no plot"),
        (["dot", "--text", "x"], "add --model DIR"),
        (["attention", "--model", "nowhere", "--text", "x"], "no model found"),
    ],
)
def test_errors_are_one_line(arguments: list[str], message: str, error_line: Callable[..., str]) -> None:
    assert message in error_line("explain", *arguments)
