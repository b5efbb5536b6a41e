"""What to tell the user about lines that were translated: how many had a problem, and the first of them."""

from collections.abc import Iterable, Iterator
from typing import Any

from regard.pipelines.translation import Translation

_N_EXAMPLES = 5  # that a warning shows


class Examples:
    """Counts things of one kind, and keeps the first ones for a warning."""

    def __init__(self, total: int = 0, first: Iterable[str] = (), more: bool = False) -> None:
        self.total = total
        self.first = dict.fromkeys(first)
        self.more = more

    def add(self, examples: Iterable[str]) -> None:
        """Add those of a line."""
        for example in examples:
            self.total += 1
            self._keep(example)

    def merge(self, other: "Examples", place: str = "") -> None:
        """Add what another one has counted; `place` is written in front of its examples."""
        self.total += other.total
        self.more |= other.more
        for example in other.first:
            self._keep(f"{place}{example}")

    def describe(self, what: str) -> str | None:
        """Return the text of a warning; None if there is nothing to warn about."""
        if not self.total:
            return None
        return f"{self.total:,} × {what}: {', '.join([*self.first, *(['…'] if self.more else [])])}"

    def _keep(self, example: str) -> None:
        if len(self.first) < _N_EXAMPLES:
            self.first[example] = None
        elif example not in self.first:
            self.more = True


class LineReport:
    """What was found in some lines: those without a translation, words and terms."""

    def __init__(self) -> None:
        self.not_text, self.refused, self.unseen, self.unmet = Examples(), Examples(), Examples(), Examples()

    def add(self, number: int, translation: Translation) -> None:
        """Add a line."""
        if translation.problem:
            self.refused.add([translation.problem.describe(f"line {number:,}", "--max-source")])
        self.unseen.add(translation.unknown)
        self.unmet.add(f"line {number:,}: {term}" for term in translation.unmet_terms)

    def merge(self, other: "LineReport", place: str = "") -> None:
        """Add the report of other lines; `place` is written in front of examples with line numbers."""
        self.not_text.merge(other.not_text, place)
        self.refused.merge(other.refused, place)
        self.unseen.merge(other.unseen)
        self.unmet.merge(other.unmet, place)

    def warnings(self) -> Iterator[str]:
        """Yield what to tell the user, as one line per kind."""
        kinds = (
            (self.not_text, "a line with invalid UTF-8 or a NUL character, replaced by \ufffd"),
            (self.refused, "a line without a translation"),
            (self.unseen, "a word that never occurred in training"),
            (self.unmet, "a term of the glossary that is not in the translation"),
        )
        yield from filter(None, (examples.describe(what) for examples, what in kinds))

    def to_json(self) -> dict[str, Any]:
        return {name: [each.total, list(each.first), each.more] for name, each in vars(self).items() if each.total}

    @classmethod
    def from_json(cls, tree: dict[str, Any]) -> "LineReport":
        report = cls()
        for name, (total, first, more) in tree.items():
            setattr(report, name, Examples(total, first, more))
        return report
