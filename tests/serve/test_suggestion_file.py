"""Lines are appended as a whole, and only to a file of that name."""

import json
import threading
from pathlib import Path

import pytest

from regard.errors import UserError
from regard.serve.suggestion_file import SuggestionFile, SuggestionFileFull


def test_lines_of_several_threads_and_after_one_that_was_cut_off(tmp_path: Path) -> None:
    file = SuggestionFile(tmp_path / "lines")
    file.path.write_bytes(b'{"q": "cut o')
    threads = [threading.Thread(target=file.append, args=({"q": f"{i}\n" * 50},)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first, *lines = file.path.read_text().splitlines()
    assert first == '{"q": "cut o'
    assert sorted(int(json.loads(line)["q"].split()[0]) for line in lines) == list(range(20))


def test_the_file_is_bounded_and_private(tmp_path: Path) -> None:
    file = SuggestionFile(tmp_path / "lines", max_bytes=30)
    file.append({"q": "a"})
    size = file.path.stat().st_size
    with pytest.raises(SuggestionFileFull):
        file.append({"q": "a" * 20})
    assert file.path.stat().st_size == size and file.path.stat().st_mode & 0o077 == 0


def test_a_line_that_does_not_fit_on_the_disk_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.write", lambda descriptor, line: len(line) - 1)
    with pytest.raises(OSError, match="No space left"):
        SuggestionFile(tmp_path / "lines").append({"q": "a"})


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    for path in (tmp_path, tmp_path / "none" / "lines", link, Path("/dev/null")):
        with pytest.raises(UserError, match="cannot be written"):
            SuggestionFile(path).check()
    assert not (tmp_path / "elsewhere").exists()
