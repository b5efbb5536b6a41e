"""Minimum Bayes risk decoding: of several samples, choose the one that is most like all the others."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from regard.search.protocols import Hypothesis
from regard.text.pairwise_chrf import pairwise_chrf


def choose_by_mbr(samples: Sequence[Hypothesis], texts: Sequence[str]) -> Hypothesis:
    """Return the sample whose text has the highest mean chrF against the texts of all samples, itself included.

    This mean becomes its score. Of equal ones, the first is taken.
    """
    counts = Counter(texts)  # equal samples are compared once
    utilities = pairwise_chrf(list(counts)) @ np.array(list(counts.values())) / len(texts)
    best = int(utilities.argmax())
    return replace(samples[texts.index(list(counts)[best])], score=float(utilities[best]))
