"""Which synthetic pairs are kept: not empty, no copies, no duplicates, of usual length, and with a good score."""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from regard.config import Config
from regard.data.data_file import read_lines, without_compression
from regard.data.pair_rules import RULES, apply_rules
from regard.data.pair_table import PairTableBuilder
from regard.data.reading_progress import ReadingProgress, no_progress
from regard.data.text_output import new_text_file
from regard.errors import UserError
from regard.synthetic.pair_files import reported

_HEADER = "line\treason\tsource\ttarget\n"
_RULES = (RULES["duplicate"], RULES["identical"], RULES["ratio"])


class PairFilter(Config):
    """Options of the choice by score: the mean log-probability per token that the model gave to its translation."""

    min_score: float | None = Field(None, le=0.0)
    """The lowest score of a pair that is kept, such as −1.5."""
    keep: float = Field(1.0, gt=0.0, le=1.0)
    """The share of the pairs to keep, those with the best scores; pairs with equal scores are kept together."""

    def apply(self, scores: NDArray[np.float64], dropped: NDArray[np.bool_]) -> Iterator[tuple[str, NDArray[np.bool_]]]:
        """Yield the reasons to drop some of the pairs that are not yet dropped, and which pairs those are [n]."""
        if self.min_score is not None:
            low = ~dropped & (scores < self.min_score)
            dropped = dropped | low
            yield f"score below {self.min_score:g}", low
        kept = np.sort(scores[~dropped])
        if self.keep < 1.0 and len(kept):
            n_dropped = len(kept) - max(1, round(self.keep * len(kept)))
            yield f"not among the best {100 * self.keep:g} % by score", ~dropped & (scores < kept[n_dropped])


class SyntheticPair(NamedTuple):
    """A pair that a model has made; with a problem, one side may be missing."""

    source: str
    target: str
    score: float = 0.0
    problem: str = ""


@dataclass(frozen=True)
class FilterResult:
    """The files that were written, and how many pairs were dropped for which reason."""

    file: Path
    dropped_file: Path
    n_pairs: int
    kept: int
    dropped: dict[str, int]

    def describe(self) -> list[str]:
        lines = [f"{self.kept:,} of {self.n_pairs:,} pairs are kept: {self.file}"]
        lines += [f"dropped {count:,} × {reason}" for reason, count in self.dropped.items()]
        return [*lines, *([f"what was dropped: {self.dropped_file}"] if self.dropped else [])]


def filter_pairs(
    pairs: Iterable[SyntheticPair], config: PairFilter, out: Path, progress: ReadingProgress = no_progress
) -> FilterResult:
    """Write the pairs that are kept to the TSV file `out`, and those that are not beside it, with the reason.

    The pairs are read twice; memory holds some 40 bytes of each.
    """
    reasons, names = _find_reasons(reported(pairs, "filtering", progress), config)
    counts = Counter(reasons[reasons >= 0].tolist())
    kept = int((reasons < 0).sum())
    if not kept:
        why = ", ".join(f"{count:,} × {names[reason]}" for reason, count in counts.most_common())
        raise UserError(f"{out}: no pair is left ({why}); use a better model, or keep more pairs")
    dropped_file = dropped_path(out)
    with new_text_file(out) as good, new_text_file(dropped_file) as bad:
        bad.write(_HEADER.encode())
        all_pairs = reported(pairs, "writing", progress, len(reasons))
        for line, (reason, pair) in enumerate(zip(reasons.tolist(), all_pairs, strict=True), start=1):
            if reason < 0:
                good.write(f"{pair.source}\t{pair.target}\n".encode())
            else:
                bad.write(f"{line}\t{names[reason]}\t{pair.source}\t{pair.target}\n".encode())
    dropped = {names[reason]: count for reason, count in counts.most_common()}
    return FilterResult(out, dropped_file, len(reasons), kept, dropped)


def read_result(out: Path) -> FilterResult | None:
    """Return what `filter_pairs` has written to `out` before; None if it has not."""
    dropped_file = dropped_path(out)
    if not (out.exists() and dropped_file.exists()):
        return None
    kept = sum(1 for _ in read_lines(out))
    dropped = Counter(line.decode().split("\t")[1] for line in islice(read_lines(dropped_file), 1, None))
    return FilterResult(out, dropped_file, kept + dropped.total(), kept, dict(dropped.most_common()))


def dropped_path(out: Path) -> Path:
    """Return the file of the dropped pairs: pairs.dropped.tsv.gz for pairs.tsv.gz."""
    return out.with_name(f"{without_compression(out).stem}.dropped.tsv{out.suffix if out.suffix != '.tsv' else ''}")


def _find_reasons(pairs: Iterable[SyntheticPair], config: PairFilter) -> tuple[NDArray[np.int64], Sequence[str]]:
    """Return the number of the reason to drop each pair [n], −1 if it is kept, and the names of the reasons."""
    names: dict[str, int] = {}
    problems, scores, table = array("q"), array("d"), PairTableBuilder()
    for pair in pairs:
        problems.append(names.setdefault(pair.problem, len(names)) if pair.problem else -1)
        scores.append(pair.score)
        table.extend([] if pair.problem else [pair.source, pair.target])
    reasons = np.asarray(problems, np.int64)
    usable = np.flatnonzero(reasons < 0)
    by_rule = apply_rules(table.table(), _RULES)
    for index, rule in enumerate(_RULES):
        reasons[usable[by_rule == index]] = names.setdefault(rule.problem, len(names))
    for name, rows in config.apply(np.asarray(scores, np.float64), reasons >= 0):
        reasons[rows] = names.setdefault(name, len(names))
    return reasons, list(names)
