import io
import json
import time
from pathlib import Path
from typing import Any

import pytest

from regard.train.log import RunLog, read_metrics


def test_metrics_are_json_and_later_ones_can_be_deleted(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    for step in (1, 2, 3):
        log.record(step, loss=float("nan") if step == 2 else step / 2)
    rows = [json.loads(line, parse_constant=lambda name: name) for line in log.path.read_text().splitlines()]
    assert [row["loss"] for row in rows] == [0.5, None, 1.5]
    with log.path.open("a") as file:
        file.write('{"step": 4, "lo')  # as if the process were killed while writing
    log.rewind(2, 2)
    assert read_metrics(log.path) == rows[:2]
    log.rewind(0, 0)
    assert read_metrics(log.path) == []


def test_a_validation_that_is_repeated_is_recorded_once(tmp_path: Path) -> None:
    """Killed between the validation and its checkpoint, the run resumes from an earlier checkpoint of the same step."""
    log = RunLog(tmp_path)
    log.record(4, loss=1.0)
    log.record(4, valid_loss=2.0)
    log.rewind(4, validated=2)
    assert read_metrics(log.path) == [{"step": 4, "loss": 1.0}]


@pytest.mark.parametrize("line", ["[]", "3", '{"loss": 1}', '{"step": "x"}', "[" * 100_000, "\x00"])
def test_odd_lines_are_left_out(line: str, tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(f'{{"step": 1}}\n{line}\n'.encode() + b"\xff\n")
    assert read_metrics(path) == [{"step": 1}]


def test_a_line_says_what_takes_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr("regard.train.log._SILENCE", 0.1)
    with RunLog(tmp_path) as log:
        log.doing("update 1")
        time.sleep(1.2)
    assert "update 1: 1 s so far" in capsys.readouterr().err


def test_a_log_outlives_its_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

    for stderr in (Gone(), None):
        monkeypatch.setattr("sys.stderr", stderr)
        with RunLog(tmp_path) as log:
            log.info("nobody reads this")
            log.record(1, loss=2.0)
    assert [row["loss"] for row in read_metrics(log.path)] == [2.0, 2.0]


def test_the_first_line_names_the_limits(tmp_path: Path, capsys: Any) -> None:
    with RunLog(tmp_path) as log:
        for seconds in (None, 90.0):
            with log.progress(2, 1_000, seconds):
                pass
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "training: at most 1,000 updates, starting with update 3"
    assert lines[1] == "training: at most 1,000 updates or 90 s, starting with update 3"
