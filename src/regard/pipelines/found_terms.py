"""The terms of a glossary that occur in texts, and which of them translations lack."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from regard.data.glossary import Glossary, GlossaryTerm, TermMatch, TextWords, count_terms
from regard.text.fitted_text import FittedText
from regard.text.term_annotation import AnnotatedSpan, annotate_fitted


@dataclass(frozen=True)
class FoundTerms:
    """The terms in each of some texts"""

    rows: Sequence[Sequence[TermMatch]]
    is_cased: bool
    """Whether the model writes capitals; one that does not generates terms in lower case"""

    @classmethod
    def find(cls, glossary: Glossary | None, fitted: Sequence[FittedText], is_cased: bool) -> "FoundTerms":
        """Find the terms in texts as the model reads them."""
        return cls([glossary.find(fit.text) if glossary else [] for fit in fitted], is_cased)

    def without(self, rows: Collection[int]) -> "FoundTerms":
        """Return the terms as if some texts had none."""
        return FoundTerms([[] if i in rows else row for i, row in enumerate(self.rows)], self.is_cased)

    def n_missing(self, row: int, translation: str) -> tuple[int, int]:
        """Return how many occurrences of terms a translation lacks, in any case and written as in the glossary."""
        counts, words = count_terms(self.rows[row]).items(), TextWords.of(translation)
        any_case, as_written = (
            sum(max(0, n - term.count_in(words, is_cased)) for term, n in counts) for is_cased in (False, self.is_cased)
        )
        return any_case, as_written

    def annotate(self, row: int, fitted: FittedText, translation: str) -> FittedText:
        """Return a text with a target after each term: the one that a translation has, or else the preferred one."""
        spans, words = [], TextWords.of(translation)
        for match in self.rows[row]:
            forms = [GlossaryTerm(match.term.source, (target,)) for target in match.term.targets]
            used = next((form for form in forms if form.count_in(words, self.is_cased)), forms[0])
            target = used.targets[0] if self.is_cased else used.targets[0].lower()
            spans.append(AnnotatedSpan(match.start, match.end, target))
        return annotate_fitted(fitted, spans)
