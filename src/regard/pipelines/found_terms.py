"""The terms of a glossary that occur in texts, and which of them translations lack."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.data.glossary import Glossary, GlossaryTerm, TermMatch, count_terms
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

    def n_missing(self, row: int, translations: Sequence[str]) -> int:
        """Return how many occurrences of terms the translation lacks that lacks most."""
        terms = count_terms(self.rows[row])
        counts = ([n - term.count_in(text, self.is_cased) for term, n in terms.items()] for text in translations)
        return max((sum(n for n in row if n > 0) for row in counts), default=0)

    def annotate(self, row: int, fitted: FittedText, translation: str) -> FittedText:
        """Return a text with a target after each term: the one that a translation has, or else the preferred one."""
        spans = []
        for match in self.rows[row]:
            forms = [GlossaryTerm(match.term.source, (target,)) for target in match.term.targets]
            used = next((form for form in forms if form.count_in(translation, self.is_cased)), forms[0])
            target = used.targets[0] if self.is_cased else used.targets[0].lower()
            spans.append(AnnotatedSpan(match.start, match.end, target))
        return annotate_fitted(fitted, spans)
