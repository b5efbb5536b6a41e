"""What is in a parallel corpus, and what is wrong with it."""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from regard.data.corpus_report import REPAIRED
from regard.data.language import INSTALL, can_identify, language_identifier
from regard.data.leakage import Leakage, find_leakage
from regard.data.pair_rules import RULES, PairRule, apply_rules, usual_ratio
from regard.data.pair_table import PairTable
from regard.data.parallel_corpus import ParsedCorpus
from regard.data.reading_progress import ReadingProgress, no_progress
from regard.data.script import main_script
from regard.data.side_labels import SideLabels, label_sides
from regard.text.units import length_unit

_EXAMPLES = 3
_MOST_IDENTIFIED = 50_000  # pairs whose language is looked at: 50 µs per text
_UNIT_SAMPLE = 1_000
_MANY_INVALID = 0.01  # of the lines; a file with more of them is hardly UTF-8
_BLOCK = 20_000  # pairs whose words are counted at a time


@dataclass(frozen=True)
class SideSummary:
    """The texts of one side."""

    characters: int
    median: int
    """Length in characters"""
    percentile_95: int
    longest: int
    words: int | None
    """None in scripts without spaces"""
    distinct_words: int | None
    scripts: dict[str, float]
    """The most frequent ones and their shares"""
    languages: dict[str, float]


@dataclass(frozen=True)
class Finding:
    """Pairs with a peculiarity."""

    name: str
    """Of the rule; empty if no rule removes such pairs"""
    problem: str
    pairs: int
    share: float
    lines: tuple[int, ...]
    """The first ones"""
    example: tuple[str, str] | None
    """The first pair, if it could be read"""


@dataclass(frozen=True)
class Inspection:
    """A corpus in numbers."""

    name: str
    lines: int
    pairs: int
    ratio: float
    """Usual target length / source length, in characters"""
    source: SideSummary
    target: SideSummary
    findings: tuple[Finding, ...]
    removable: int
    """Lines that `regard data clean` removes"""
    is_sample: bool
    """Whether the language of some pairs only was looked at, so that `regard data clean` may remove more"""
    leakage: dict[str, Leakage]
    notes: tuple[str, ...]


def inspect_corpus(
    corpus: ParsedCorpus, held_out: Mapping[str, ParsedCorpus], progress: ReadingProgress = no_progress
) -> Inspection:
    """Return what is in a corpus, and its overlap with held-out corpora such as {"validation data": …}."""
    every = max(1, -(-len(corpus) // _MOST_IDENTIFIED))
    table, rules = label_table(corpus, tuple(RULES.values()), progress, every)
    reasons = apply_rules(table, rules)
    return Inspection(
        corpus.name,
        corpus.report.lines,
        len(corpus),
        usual_ratio(table),
        _summarise(corpus, table, 0, progress),
        _summarise(corpus, table, 1, progress),
        (*_unreadable(corpus), *(_by_rule(corpus, table, rule) for rule in rules), _several_targets(corpus)),
        corpus.report.lines - int((reasons < 0).sum()),
        every > 1 and table.languages is not None,
        {name: find_leakage(other, corpus, _EXAMPLES) for name, other in held_out.items()},
        tuple(_notes(corpus, table, every)),
    )


def _notes(corpus: ParsedCorpus, table: PairTable, every: int) -> Iterator[str]:
    """Yield what limits the inspection, and what no rule mends."""
    if not can_identify():
        yield f"languages are not checked: that {INSTALL}"
    elif every > 1:
        yield f"languages: one of {every:,} pairs was looked at"
    for name, labels in (("scripts", table.scripts), ("languages", table.languages)):
        for side, side_name in enumerate(("source", "target")):
            if labels and labels.is_mixed(side):
                yield f"the {side_name} is a mixture of {name}, so none of them counts as wrong"
    n_invalid, _ = corpus.report.problems.get("invalid UTF-8", (0, 0))
    if n_invalid > _MANY_INVALID * corpus.report.lines:
        yield "many lines are not UTF-8; convert files in another encoding (iconv -f ISO-8859-1 -t UTF-8 FILE > NEW)"


def label_table(
    corpus: ParsedCorpus, rules: Sequence[PairRule], progress: ReadingProgress = no_progress, every: int = 1
) -> tuple[PairTable, tuple[PairRule, ...]]:
    """Return the table of a corpus with the columns that the rules need, and the rules that can be applied.

    The language is looked at in one of `every` pairs; without the package for it, that rule is left out.
    """
    table, names = corpus.table, {rule.name for rule in rules}
    if "script" in names:
        table = replace(table, scripts=label_sides(corpus.texts, main_script, "checking scripts", progress))
    if "language" in names and not can_identify():
        rules = [rule for rule in rules if rule.name != "language"]
    elif "language" in names:
        labels = label_sides(corpus.texts, language_identifier(), "checking languages", progress, every)
        table = replace(table, languages=labels)
    return table, tuple(rules)


def _summarise(corpus: ParsedCorpus, table: PairTable, side: int, progress: ReadingProgress) -> SideSummary:
    lengths = table.lengths[:, side]
    middle, high, longest = np.percentile(lengths, (50, 95, 100)) if len(lengths) else (0, 0, 0)
    words, distinct = _count_words(corpus, side, progress)
    return SideSummary(
        int(lengths.sum(dtype=np.int64)),
        round(middle),
        round(high),
        int(longest),
        words,
        distinct,
        _top(table.scripts, side),
        _top(table.languages, side),
    )


def _top(labels: SideLabels | None, side: int) -> dict[str, float]:
    return dict(labels.shares(side)[:_EXAMPLES]) if labels else {}


def _count_words(corpus: ParsedCorpus, side: int, progress: ReadingProgress) -> tuple[int | None, int | None]:
    """Return the numbers of words and of different words of a side. Memory holds 8 bytes per different word."""
    if length_unit(corpus.texts[: 2 * _UNIT_SAMPLE][side::2]) == "characters":
        return None, None
    total, distinct = 0, np.empty(0, dtype=np.int64)
    for start in range(0, len(corpus), _BLOCK):
        progress("counting words", start, len(corpus))
        words = " ".join(corpus.texts[2 * start : 2 * (start + _BLOCK)][side::2]).split()
        total += len(words)
        distinct = np.union1d(distinct, np.asarray(array("q", map(hash, set(words)))))
    return total, len(distinct)


def _unreadable(corpus: ParsedCorpus) -> list[Finding]:
    """Return what the reader reports: lines that it leaves out or repairs."""
    findings, lines = [], corpus.report.lines
    for problem, (n, first) in sorted(corpus.report.problems.items()):
        name = problem if problem in REPAIRED else f"left out: {problem}"
        pairs = min(n, lines)  # what is repaired is counted on both sides
        findings.append(Finding("", name, pairs, pairs / lines, (first,), None))
    return findings


def _by_rule(corpus: ParsedCorpus, table: PairTable, rule: PairRule) -> Finding:
    return _finding(corpus, rule.name, rule.problem, rule(table))


def _several_targets(corpus: ParsedCorpus) -> Finding:
    """Return the pairs whose source occurred before with another target."""
    _, first, numbers = np.unique(corpus.table.sources, return_index=True, return_inverse=True)
    targets = corpus.table.hashes[:, 1]
    return _finding(
        corpus, "", "the source of an earlier pair, with another target", targets != targets[first][numbers]
    )


def _finding(corpus: ParsedCorpus, name: str, problem: str, applies: NDArray[np.bool_]) -> Finding:
    rows = np.flatnonzero(applies)
    first = rows[:_EXAMPLES].tolist()
    lines = tuple(corpus.lines[row] for row in first)
    return Finding(
        name, problem, len(rows), len(rows) / max(1, len(corpus)), lines, corpus[first[0]] if first else None
    )
