import json
from pathlib import Path

from regard.train.log import RunLog, read_metrics


def test_metrics_are_json_and_later_ones_can_be_deleted(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    for step in (1, 2, 3):
        log.record(step, loss=float("nan") if step == 2 else step / 2)
    rows = [json.loads(line, parse_constant=lambda name: name) for line in log.path.read_text().splitlines()]
    assert [row["loss"] for row in rows] == [0.5, None, 1.5]
    with log.path.open("a") as file:
        file.write('{"step": 4, "lo')  # as if the process were killed while writing
    log.rewind(2)
    assert read_metrics(log.path) == rows[:2]
    log.rewind(0)
    assert read_metrics(log.path) == []
