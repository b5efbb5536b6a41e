"""Counts of what was read from data files, used and left out."""

from collections.abc import Iterable
from dataclasses import dataclass, field

REPAIRED = {"byte order mark removed", "carriage return removed"}
"""Problems that are repaired; lines with any other problem are left out."""


@dataclass
class CorpusReport:
    """How many lines were read, how many pairs (or lines of text) are used, and the problems of the others."""

    lines: int = 0
    used: int = 0
    problems: dict[str, tuple[int, int]] = field(default_factory=dict)
    """problem → (count, first line)"""
    unit: str = "pairs"

    def add(self, problem: str, line: int) -> None:
        count, first = self.problems.get(problem, (0, line))
        self.problems[problem] = (count + 1, first)

    def leave_out(self, problem: str, lines: Iterable[int]) -> None:
        """Count pairs that are not used after all."""
        for line in lines:
            self.used -= 1
            self.add(problem, line)

    def include(self, other: "CorpusReport") -> None:
        """Add the counts of other files; the first line of a problem stays that of the first file."""
        self.lines += other.lines
        self.used += other.used
        for problem, (count, first) in other.problems.items():
            before, line = self.problems.get(problem, (0, first))
            self.problems[problem] = (before + count, line)

    def copy(self) -> "CorpusReport":
        return CorpusReport(self.lines, self.used, dict(self.problems), self.unit)

    def describe(self, name: str) -> list[str]:
        """Return one line with the totals and one per kind of problem."""
        rows = [f"{name}: {self.used:,} {self.unit} used of {self.lines:,} lines"]
        for problem, (count, first) in sorted(self.problems.items()):
            consequence = "" if problem in REPAIRED else ", left out"
            rows.append(f"{name}: {count:,} × {problem}{consequence} (first at line {first:,})")
        return rows
