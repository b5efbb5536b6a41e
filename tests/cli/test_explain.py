"""`regard explain`: topics by name and row, with the lecture's numbers or with a model."""

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from regard.explain.lectures import find_lecture, list_subjects
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


def test_a_lecture_is_listed_and_worked_through(toy_run: Path, tmp_path: Path) -> None:
    usc = find_lecture("usc")
    assert regard("explain", "--lecture", "USC").stdout.rstrip() == list_subjects(usc)
    page = tmp_path / "usc.html"
    model = ("--model", toy_run, "--text", "a b c d")
    assert regard("explain", "--lecture", "usc", *model, "--out", page).returncode == 0
    headings = ElementTree.fromstring(page.read_text()).findall(".//h2")
    assert len(headings) == len(usc.subjects)
    assert "this model has no RNN decoder" in page.read_text()  # seq2seq-step does not apply to a Transformer


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--lecture", "mit"], "choose one of hse, purdue, hufs, usc, auckland"),
        (["--lecture", "usc", "--out", "usc.png"], "name a .html file"),
        (["dot", "--lecture", "usc"], "neither a topic"),
        (["dot", "--run"], "add --lecture NAME"),
        (["--lecture", "usc", "--run", "--model", "runs/x"], "--text"),
        (["nll", "--target", "x"], "add --model DIR"),
        (["atention"], "choose one of dot, cosine"),
        (["dot", "--out", "dot.png"], "no plot"),
        (["dot", "--text", "x"], "add --model DIR"),
        (["attention", "--model", "nowhere", "--text", "x"], "no model found"),
    ],
)
def test_errors_are_one_line(arguments: list[str], message: str, error_line: Callable[..., str]) -> None:
    assert message in error_line("explain", *arguments)
