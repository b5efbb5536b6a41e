from pathlib import Path

import numpy as np
import pytest

from regard.data import text_spool
from regard.data.text_spool import TextSpool
from regard.errors import UserError

TEXTS = ["", "é", "two\nlines", "x" * 1000, "😀 \u2028 "] * 200


def filled(texts: list[str]) -> TextSpool:
    spool = TextSpool()
    for text in texts:
        spool.append(text)
    return spool


@pytest.mark.parametrize("limit", [1 << 20, 5000, 0])
def test_texts_are_read_back_in_memory_and_on_disk(limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(text_spool, "_IN_MEMORY", limit)
    spool = filled(TEXTS)
    assert len(spool) == len(TEXTS)
    assert list(spool) == TEXTS
    assert [spool[i] for i in (3, 0, 999)] == [TEXTS[i] for i in (3, 0, 999)]
    assert list(spool.slice(250, 600)) == TEXTS[250:600] and list(spool.slice(7, 7)) == []
    assert spool[250:600] == TEXTS[250:600] and spool[990:2000:2] == TEXTS[990:2000:2] and spool[5:5] == []
    first, second = iter(spool), iter(spool)
    assert [next(first), next(second), next(first)] == [TEXTS[0], TEXTS[0], TEXTS[1]]
    assert (tmp_path / "cache").exists() == (limit < 1 << 20)
    assert not (tmp_path / "cache").exists() or list((tmp_path / "cache").iterdir()) == [], "the file has no name"
    spool.close()
    with pytest.raises(ValueError, match="closed"):
        spool[0]


def test_kept_texts_have_new_positions() -> None:
    spool, kept = filled(TEXTS), np.arange(len(TEXTS)) % 3 > 0
    spool.keep(kept)
    rest = [text for text, keep in zip(TEXTS, kept, strict=True) if keep]
    assert list(spool) == rest and spool[300] == rest[300] and spool[200:500] == rest[200:500]


def test_a_cache_folder_that_cannot_be_written_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(text_spool, "_IN_MEMORY", 100)
    with pytest.raises(UserError, match="cannot be written"):
        filled(TEXTS)
