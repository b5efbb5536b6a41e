"""The folder of a job is refused to another job, with a line that says what differs."""

from pathlib import Path
from typing import Any

import pytest

from regard.bulk.job_folder import job_folder
from regard.errors import UserError

LONG = "x" * 100


@pytest.mark.parametrize(
    ("before", "now", "message"),
    [
        ("soft", "hard", 'with --mode "soft", not "hard"'),
        (None, "hard", "without --mode"),
        ("soft", None, 'with --mode "soft"'),
        (LONG, "hard", "with another --mode"),
        (LONG, None, "with --mode"),
    ],
)
def test_what_differs_is_said(before: Any, now: Any, message: str, tmp_path: Path) -> None:
    with job_folder(tmp_path, {"text": "a", "--mode": before}):
        (tmp_path / "part").write_text("")
    with (
        pytest.raises(UserError, match=f"was begun {message}; give the same"),
        job_folder(tmp_path, {"text": "a", "--mode": now}),
    ):
        pass
