"""Word alignments as targets for the attention of a guided head."""

from collections.abc import Iterable
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data import word_alignments
from regard.data.data_file import DataFile
from regard.data.pair_rules import FilterConfig
from regard.data.parallel_corpus import Corpus
from regard.data.word_alignments import AlignmentGuide, read_alignments
from regard.errors import UserError
from regard.text.ragged import Ragged
from regard.text.tokenizer import TokenizerPair

PIECES = ["▁the", "▁gr", "een", "▁witch", "▁la", "▁sor", "cière", "▁verte", "</s>", "▁その", "学生", "は"]


class Pieces:
    size = len(PIECES)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        return [PIECES[i] for i in ids]


def guide(*links: list[tuple[int, int]]) -> AlignmentGuide:
    pair = TokenizerPair(Pieces(), Pieces())  # type: ignore[arg-type]
    ends = np.cumsum([0, *map(len, links)])
    return AlignmentGuide(np.asarray([*chain.from_iterable(links)], dtype=np.int32).reshape(-1, 2), ends, pair, "")


def test_attention_is_shared_by_the_tokens_of_linked_words() -> None:
    src, tgt = Ragged.of([[0, 1, 2, 3], [0]]), Ragged.of([[4, 5, 6, 7], [4, 7]])
    attention = guide([(0, 0), (2, 1), (1, 2), (2, 2)], [(0, 1), (5, 0), (0, 9)])(np.array([0, 1]), src, tgt, (3, 6, 5))
    assert attention.shape == (3, 6, 5)
    third = 1 / 3
    expected = [
        [1, 0, 0, 0, 0],  # la: the
        [0, 0, 0, 1, 0],  # sor-: witch
        [0, 0, 0, 1, 0],  # -cière
        [0, third, third, third, 0],  # verte: gr-, -een and witch
        [0, 0, 0, 0, 0],  # EOS is not part of a word
        [0, 0, 0, 0, 0],
    ]
    torch.testing.assert_close(attention[0], torch.tensor(expected))
    assert attention[1].nonzero().tolist() == [[1, 0]], "links to words that do not exist are ignored"
    assert not attention[2].any(), "a filler row"


def test_without_spaces_links_are_counted_in_characters() -> None:
    src, tgt = Ragged.of([[0, 3], [0, 3]]), Ragged.of([[9, 10, 11], [4, 5, 6]])
    links = [(0, 1), (1, 2), (1, 3), (1, 4), (0, 5)], [(1, 1)]
    attention = guide(*links)(np.array([0, 1]), src, tgt, (2, 4, 3))
    expected = [[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 0]]  # その: the; 学生 and は: witch
    torch.testing.assert_close(attention[0], torch.tensor(expected, dtype=torch.float32))
    assert attention[1].nonzero().tolist() == [[1, 1], [2, 1]], "a pair with spaces is counted in words"


def test_alignments_of_lines_that_are_left_out_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n\nx\ny y\n")
    (tmp_path / "b").write_text("u\nv\nu\nw w\n")
    (tmp_path / "links").write_text("0-0\n5-5\n6-6\n1-0 0-1\n")
    corpus = Corpus((tmp_path / "a", tmp_path / "b"), filter=FilterConfig()).read()
    pair = TokenizerPair(Pieces(), Pieces())  # type: ignore[arg-type]
    opened = AlignmentGuide.open(tmp_path / "links", corpus, np.array([0, 1]), pair)
    assert opened.ends.tolist() == [0, 1, 3] and opened.links.tolist() == [[0, 0], [1, 0], [0, 1]]
    (tmp_path / "links").write_text("0-0\n1-0 0-1\n")
    with pytest.raises(UserError, match="2 lines for 4 pairs"):
        AlignmentGuide.open(tmp_path / "links", corpus, np.array([0, 1]), pair)


@pytest.mark.parametrize("block", [1, 2, 100])
def test_links_read_in_blocks_are_those_of_each_line(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(word_alignments, "_BLOCK", block)
    lines = ["0-0 1?2", "", "  3-4\t10-11 ", "12?0\r", "٣-1 999999-7", "5-5"]  # other digits are digits too
    path = tmp_path / "links"
    path.write_text("".join(f"{line}\n" for line in lines), newline="")
    links, ends = word_alignments._read_links(DataFile(path))
    expected = [gold.possible for gold in read_alignments(path)]
    assert [set(map(tuple, links[a:b].tolist())) for a, b in pairwise(ends.tolist())] == expected
    for bad in ("1-", "1-2-3", "a-b", "1234567-0", "-1-2"):
        path.write_text(f"0-0\n0-1 {bad}\n")
        with pytest.raises(UserError, match=f"line 2: '{bad}' is not a link"):
            word_alignments._read_links(DataFile(path))
