"""Write the pairs of a corpus that no rule removes, and what was removed."""

import heapq
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.data.data_file import BadLine, without_compression
from regard.data.inspection import label_table
from regard.data.pair_readers import named_languages
from regard.data.pair_rules import PairRule, apply_rules
from regard.data.parallel_corpus import Corpus, ParsedCorpus
from regard.data.reading_progress import ReadingProgress, no_progress
from regard.data.text_spool import TextSpool
from regard.errors import UserError
from regard.files import new_folder
from regard.paths import check_writable
from regard.text.clean import clean

REMOVED = "removed.tsv"
_HEADER = "line\treason\tsource\ttarget\n"


@dataclass(frozen=True)
class CleaningResult:
    """The files that were written, and how many lines were removed for which reason."""

    files: tuple[Path, Path]
    removed_file: Path
    lines: int
    kept: int
    removed: dict[str, int]


def clean_corpus(
    corpus: Corpus, rules: Sequence[PairRule], out: Path, progress: ReadingProgress = no_progress
) -> CleaningResult:
    """Write the clean pairs as two line-aligned files, and removed.tsv, to the new folder `out`: all or nothing."""
    _check_out(out)
    names = _file_names(corpus)
    bad = _BadPairs()
    with closing(bad.texts), closing(corpus.read(progress, bad.add)) as parsed:
        parsed.check_not_empty()
        table, rules = label_table(parsed, rules, progress)
        reasons = apply_rules(table, rules)
        removed = Counter(bad.counts)
        removed.update(rules[reason].problem for reason in reasons[reasons >= 0].tolist())
        with new_folder(out) as folder:
            _write_kept(parsed, reasons < 0, (folder / names[0], folder / names[1]), progress)
            rows = heapq.merge(bad.rows(), _removed_rows(parsed, reasons, rules))
            with (folder / REMOVED).open("w", encoding="utf-8", newline="\n") as file:
                file.write(_HEADER)
                file.writelines(row for _, row in rows)
        return CleaningResult(
            (out / names[0], out / names[1]),
            out / REMOVED,
            parsed.report.lines,
            int((reasons < 0).sum()),
            dict(removed.most_common()),
        )


def _check_out(out: Path) -> None:
    """Refuse a folder with files in it, and one that cannot be written."""
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise UserError(f"--out {out}: already exists; choose a new or empty folder")
    parent = next(folder for folder in out.absolute().parents if folder.exists())
    if not parent.is_dir():
        raise UserError(f"--out {out}: {parent} is not a folder; choose another --out")
    check_writable(parent, f"--out {out}")


def _file_names(corpus: Corpus) -> tuple[str, str]:
    """Return the names of two input files, or two names that end in the languages of a file of pairs."""
    plain = [without_compression(path) for path in corpus.paths]
    if len(plain) == 2 and plain[0].name != plain[1].name and REMOVED not in (plain[0].name, plain[1].name):
        return plain[0].name, plain[1].name
    languages = corpus.langs or (named_languages(corpus.paths[0]) if len(plain) == 1 else None) or ("src", "tgt")
    return f"{plain[0].stem}.{languages[0]}", f"{plain[0].stem}.{languages[1]}"


class _BadPairs:
    """The lines that the reader leaves out, kept until they are written."""

    def __init__(self) -> None:
        self.lines, self.texts, self.counts = array("q"), TextSpool(), Counter[str]()

    def add(self, line: int, problem: str, sides: Sequence[bytes | str | BadLine]) -> None:
        texts = [side.decode("utf-8", "replace") if isinstance(side, bytes) else side for side in sides]
        shown = [clean(text) if isinstance(text, str) else "" for text in texts]
        self.lines.append(line)
        self.texts.append(_row(line, problem, (shown[0], shown[1] if len(shown) > 1 else "")))
        self.counts[problem] += 1

    def rows(self) -> Iterator[tuple[int, str]]:
        return zip(self.lines, self.texts, strict=True)


def _removed_rows(
    corpus: ParsedCorpus, reasons: NDArray[np.int64], rules: Sequence[PairRule]
) -> Iterator[tuple[int, str]]:
    for row in np.flatnonzero(reasons >= 0).tolist():
        yield corpus.lines[row], _row(corpus.lines[row], rules[reasons[row]].problem, corpus[row])


def _row(line: int, problem: str, pair: tuple[str, str]) -> str:
    return f"{line}\t{problem}\t{pair[0]}\t{pair[1]}\n"


def _write_kept(
    corpus: ParsedCorpus, kept: NDArray[np.bool_], paths: tuple[Path, Path], progress: ReadingProgress
) -> None:
    with (
        paths[0].open("w", encoding="utf-8", newline="\n") as src,
        paths[1].open("w", encoding="utf-8", newline="\n") as tgt,
    ):
        for row, (keep, pair) in enumerate(zip(kept.tolist(), corpus, strict=True)):
            progress("writing", row, len(corpus))
            if keep:
                src.write(f"{pair[0]}\n")
                tgt.write(f"{pair[1]}\n")
