"""Decoding with a glossary: translations that lack terms are made again."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from regard.pipelines.decoded_texts import DecodedTexts
from regard.pipelines.found_terms import FoundTerms
from regard.pipelines.term_encoder import TermEncoder
from regard.search.protocols import Hypothesis, StepObserver, StopRecorder
from regard.search.required_terms import TermSearch
from regard.text.fitted_text import FittedText

_Sources = Sequence[Sequence[int]]
Search = Callable[[_Sources, StepObserver | None, TermSearch | None], dict[int, list[Hypothesis]]]
"""Decodes sources, and may have to find terms; empty sources have no result"""
_Missing = list[tuple[int, int]]
"""What each hypothesis of a text lacks of its terms: see `FoundTerms.n_missing`"""


@dataclass(frozen=True)
class GlossaryDecoder:
    """Decodes texts, and again those whose translations lack terms.

    First as if there were no glossary. Then, if the model was trained to read terms, annotated where the best
    hypothesis lacks any; what lacks fewer is kept. At last, if the terms must occur, by a search for them where any
    hypothesis still lacks one.
    """

    search: Search
    encode: Callable[[Sequence[str]], _Sources]
    """Tokenises texts; those that are too long are empty then"""
    text_of: Callable[[Sequence[int]], str]
    """Returns the text of output tokens"""
    reads_terms: bool
    """Whether the model was trained to read annotated terms"""
    encode_terms: TermEncoder | None
    """For terms that must occur"""

    def decode(
        self, fitted: Sequence[FittedText], sources: _Sources, terms: FoundTerms, observer: StepObserver | None
    ) -> DecodedTexts:
        """Decode texts, given with their tokens and terms.

        `observer` sees the first search only, and its attribute `again` the others; texts that it stops stay as they
        are.
        """
        recorder = None if observer is None else StopRecorder(observer)
        decoded = DecodedTexts(fitted, sources, self.search(sources, recorder, None))
        if recorder:
            terms, observer = terms.without(recorder.stopped), recorder.again
        if self.reads_terms:
            decoded = self._read_terms(decoded, terms, observer)
        if self.encode_terms:
            decoded = self._search_terms(decoded, terms, observer)
        return decoded

    def _read_terms(self, decoded: DecodedTexts, terms: FoundTerms, observer: StepObserver | None) -> DecodedTexts:
        """Decode annotated texts where the best hypothesis lacks terms."""
        best = {i: row[:1] for i, row in self._n_missing(decoded, terms).items()}
        lacking = {i: row for i, row in best.items() if any(map(any, row))}
        if not lacking:
            return decoded
        fitted = list(decoded.fitted)
        for i in lacking:
            fitted[i] = terms.annotate(i, fitted[i], self.text_of(decoded.hypotheses[i][0].ids))
        sources = self.encode([fit.tagged_text if i in lacking else "" for i, fit in enumerate(fitted)])
        again = DecodedTexts(fitted, sources, self.search(sources, observer, None))
        return decoded.replace_rows(self._better_rows(lacking, again, terms), again)

    def _search_terms(self, decoded: DecodedTexts, terms: FoundTerms, observer: StepObserver | None) -> DecodedTexts:
        """Search for the terms of texts of which any hypothesis lacks some."""
        assert self.encode_terms
        lacking = {i: row for i, row in self._n_missing(decoded, terms).items() if any(map(any, row))}
        if not lacking:
            return decoded
        required = self.encode_terms([row if i in lacking else () for i, row in enumerate(terms.rows)])
        sources = [source if row else () for source, row in zip(decoded.sources, required.rows, strict=True)]
        again = DecodedTexts(decoded.fitted, decoded.sources, self.search(sources, observer, required))
        return decoded.replace_rows(self._better_rows(lacking, again, terms), again)

    def _better_rows(self, lacking: Mapping[int, _Missing], again: DecodedTexts, terms: FoundTerms) -> Collection[int]:
        """Return the texts whose new hypotheses lack less, the best ones compared first."""
        missing = self._n_missing(again, terms)
        return {i for i, before in lacking.items() if (row := missing.get(i)) and row[: len(before)] < before}

    def _n_missing(self, decoded: DecodedTexts, terms: FoundTerms) -> dict[int, _Missing]:
        """Return what each hypothesis of texts with terms lacks of them, that of the best one first."""
        return {
            i: [terms.n_missing(i, self.text_of(hypothesis.ids)) for hypothesis in row]
            for i, row in decoded.hypotheses.items()
            if terms.rows[i]
        }
