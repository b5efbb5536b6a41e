"""The list of each lecture's subjects, and the lecture worked through."""

import shlex

import pytest
from typer.main import get_command

from regard.cli.app import app
from regard.explain.lectures import LECTURES, Lecture, list_subjects
from regard.explain.render_text import render_lecture_text
from regard.explain.topics import TOPICS
from regard.explain.worked_lecture import work_through
from regard.labs import LABS
from regard.train.recipe import recipe_names

# Systems and parts that each lecture has.
ROWS = {
    "hse": "S1 S8 S9 S10 S11 S12 S13 P16 P17 P19 P20 P22 P23",
    "purdue": "S1 S2 S6 S8 S9 S10 S11 S13 S16 S17 P16 P21 P22 P24 P25 W13",
    "hufs": "S7 S8 S10 S11 S12 S13 S18 P19 W11 W12",
    "usc": "S1 S3 S4 S5 S6 S8 S9 S10 S14 S15 S19 P16 P18 P19 P20 P24 P26 P27",
    "auckland": "S7 S8 S10 S12 P19 P21 P22",
}


@pytest.mark.parametrize("lecture", LECTURES, ids=lambda lecture: lecture.name)
def test_every_subject_names_what_exists(lecture: Lecture) -> None:
    topics, verbs = {topic.name for topic in TOPICS}, get_command(app).commands  # type: ignore[attr-defined]
    for subject in lecture.subjects:
        assert subject.rows and subject.commands, subject.title
        assert subject.topic in topics | {None} and subject.lab in {*LABS, None}
        for command in subject.commands:
            words = shlex.split(command)
            assert words[0] == "sed" or (words[0] == "regard" and words[1] in verbs), command
            if "--recipe" in words:
                assert words[words.index("--recipe") + 1] in recipe_names(), command
    rows = {row for subject in lecture.subjects for row in subject.rows}
    assert set(ROWS[lecture.name].split()) <= rows
    assert all(command in list_subjects(lecture) for subject in lecture.subjects for command in subject.commands)


def test_the_lectures_have_every_topic() -> None:
    assert {topic.name for topic in TOPICS} == {name for lecture in LECTURES for name in lecture.topics}


def test_a_topic_is_explained_once() -> None:
    [lecture] = [lecture for lecture in LECTURES if lecture.name == "usc"]
    worked = list(work_through(lecture))
    assert sum(part.explanation is not None for part in worked) == len(lecture.topics)
    text = "".join(render_lecture_text(worked))
    assert all(part.heading in text for part in worked)
