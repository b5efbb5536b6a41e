"""Raw pairs of a file → clean texts; what cannot be used is counted."""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from regard.data.corpus_report import CorpusReport
from regard.data.data_file import BadLine, decode_line
from regard.data.pair_readers import RawPair
from regard.text.clean import clean, has_surrogate, needs_cleaning

OnBadPair = Callable[[int, str, Sequence[bytes | str | BadLine]], None]
"""Called with the line, the problem and the sides, or what is known of them"""

_BLOCK = 64  # pairs looked at together: if nothing is wrong with any of them, they need no cleaning


@dataclass(frozen=True)
class PairCleaner:
    """Cleans the pairs of a corpus, one after the other."""

    max_chars: int
    """Pairs with a longer side are left out"""
    on_bad_pair: OnBadPair | None = None

    def __call__(self, pairs: Sequence[RawPair], report: CorpusReport, lines: "array[int]") -> list[str]:
        """Return the sides of the next pairs of the files that can be used; `lines` gets their line numbers."""
        starts = range(0, len(pairs), _BLOCK)
        return [text for i in starts for text in self._clean_block(pairs[i : i + _BLOCK], report, lines)]

    def _clean_block(self, pairs: Sequence[RawPair], report: CorpusReport, lines: "array[int]") -> list[str]:
        """Return the sides of the next pairs of the files that can be used; `lines` gets their line numbers."""
        if ready := self._find_ready(pairs):
            lines.extend(range(report.lines + 1, report.lines + 1 + len(pairs)))
            report.lines += len(pairs)
            report.used += len(pairs)
            return ready
        kept: list[str] = []
        for pair in pairs:
            report.lines += 1
            sides = pair if isinstance(pair, tuple) else (pair,)
            texts = [self._clean_side(side, report) for side in sides]
            if bad := next((text for text in texts if isinstance(text, BadLine)), None):
                report.add(bad.problem, report.lines)
                if self.on_bad_pair:
                    self.on_bad_pair(report.lines, bad.problem, sides)
                continue
            report.used += 1
            kept += map(str, texts)
            lines.append(report.lines)
        return kept

    def _find_ready(self, pairs: Sequence[RawPair]) -> list[str] | None:
        """Return the sides of all pairs if nothing is wrong with any of them, else None."""
        try:
            lines = b"\n".join(chain.from_iterable(pairs)).decode("utf-8")  # type: ignore[arg-type]
        except (TypeError, UnicodeDecodeError):  # TypeError: a BadLine, or a side that is a str
            return None
        texts = lines.split("\n")
        if "\0" in lines or needs_cleaning(lines) or "" in texts or max(map(len, texts)) > self.max_chars:
            return None
        if len(texts) > 2 * len(pairs):  # a cell of a CSV may have several lines
            return None
        return texts

    def _clean_side(self, raw: "bytes | str | BadLine", report: CorpusReport) -> "str | BadLine":
        if isinstance(raw, bytes):
            raw = decode_line(raw, report.lines, report, first=report.lines == 1)
        elif isinstance(raw, str):  # of a JSONL, which can write characters that UTF-8 cannot
            if "\0" in raw:
                return BadLine("NUL character")
            if has_surrogate(raw):
                return BadLine("lone surrogate")
        if isinstance(raw, BadLine):
            return raw
        text = clean(raw)
        if not text:
            return BadLine("empty side")
        if len(text) > self.max_chars:
            return BadLine(f"over {self.max_chars:,} characters")
        return text
