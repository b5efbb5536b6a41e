"""Metrics of other programs: their protocol, and what goes wrong with them."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.errors import UserError
from regard.evaluate.external_metric import ExternalMetric, parse_metrics

OVERLAP = """
import sys
for line in sys.stdin:
    source, hypothesis, reference = line.rstrip("\\n").split("\\t")
    words = reference.split()
    print(sum(word in words for word in hypothesis.split()) / max(1, len(hypothesis.split())))
"""


@pytest.fixture
def metric(tmp_path: Path) -> Callable[[str], ExternalMetric]:
    """Make a metric of the code of a Python program."""

    def make(code: str) -> ExternalMetric:
        program = tmp_path / "my metric.py"
        program.write_text(code)
        return ExternalMetric.parse(f"overlap={sys.executable} '{program}'")

    return make


def test_the_mean_of_the_printed_scores_is_reported_with_its_interval(metric: Callable[[str], ExternalMetric]) -> None:
    hypotheses, references = ["a b", "x y", "", "c d"] * 5, ["a b", "a b", "e", "c e"] * 5
    overlap = metric(OVERLAP)
    assert overlap.name == "overlap"
    scores = overlap.sentence_scores(["s"] * 20, hypotheses, references)
    assert scores.tolist() == [1.0, 0.0, 0.0, 0.5] * 5
    result = overlap.score(["s"] * 20, hypotheses, references)
    assert result.score == pytest.approx(0.375) and result.interval[0] < 0.375 < result.interval[1]


def test_tabs_and_line_breaks_in_texts_do_not_break_the_protocol(metric: Callable[[str], ExternalMetric]) -> None:
    texts = ["a\tb", "a\nb", "a\r\nb", "a\u2028b", "a\x0bb", "\ud800", "é"]
    assert len(metric(OVERLAP).sentence_scores(texts, texts, texts)) == len(texts)


@pytest.mark.parametrize(
    "code, message",
    [
        ("import sys; print('bad\\nno model', file=sys.stderr); sys.exit(3)", "failed with exit code 3: no model"),
        ("print(1.0)", "printed 1 lines for 2 sentences"),
        ("print('1\\n2\\n3')", "printed 3 lines for 2 sentences"),
        ("print('1\\nscore')", "line 2 of its output is 'score', not a number"),
        ("print('nan\\n2')", "line 1 of its output is 'nan', not a number"),
    ],
)
def test_a_program_that_fails_gives_one_line(metric: Callable[[str], ExternalMetric], code: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        metric(code).sentence_scores(["a", "b"], ["a", "b"], ["a", "b"])
    assert message in str(error.value) and "\n" not in str(error.value)


def test_commands_that_cannot_be_run_are_refused(tmp_path: Path) -> None:
    for text, message in (
        ("no-such-program --x=1", "no-such-program: there is no such program"),
        ("x 'y", "not a command"),
        ("name=", "give a command"),
    ):
        with pytest.raises(UserError, match=message):
            ExternalMetric.parse(text)
    with pytest.raises(UserError, match="two metrics are called sh"):
        parse_metrics(["sh x", "b=sh x", "/bin/sh y"])
    assert [m.name for m in parse_metrics(["/bin/sh x", "comet-22=sh --c=d"])] == ["sh", "comet-22"]
    program = tmp_path / "empty"
    program.write_text("")
    program.chmod(0o755)
    with pytest.raises(UserError, match="empty: cannot be started"):
        ExternalMetric.parse(str(program)).sentence_scores(["a"], ["a"], ["a"])
