"""Texts that a model has read, and its hypotheses for them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from regard.search.protocols import Hypothesis
from regard.text.fitted_text import FittedText


@dataclass(frozen=True)
class DecodedTexts:
    """Some texts in their order"""

    fitted: Sequence[FittedText]
    """As the model reads them"""
    sources: Sequence[Sequence[int]]
    """Their tokens"""
    hypotheses: Mapping[int, list[Hypothesis]]
    """By the number of the text; empty, too long and stopped ones may have none"""

    def replace_rows(self, rows: Collection[int], other: "DecodedTexts") -> "DecodedTexts":
        """Return the same texts with some rows of `other`."""
        fitted = [(other if i in rows else self).fitted[i] for i in range(len(self.fitted))]
        sources = [(other if i in rows else self).sources[i] for i in range(len(self.sources))]
        return DecodedTexts(fitted, sources, {**self.hypotheses, **{i: other.hypotheses[i] for i in rows}})
