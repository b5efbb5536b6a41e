"""chrF of all pairs of texts equals sacreBLEU's, pair by pair."""

import random

import numpy as np
import pytest
from sacrebleu.metrics.chrf import CHRF

from regard.text.pairwise_chrf import pairwise_chrf

WORDS = ["la", "sorcière", "verte", "est", "arrivée", "un", "chat", "🙂", "eee", "\u3000", "ﬁ", "e\u0301"]


@pytest.mark.parametrize("n_words", [0, 2, 12, 60])
def test_all_pairs_equal_sacrebleus_sentence_scores(n_words: int) -> None:
    draw = random.Random(n_words)
    texts = [" ".join(draw.choice(WORDS) for _ in range(draw.randint(0, n_words))) for _ in range(8)]
    texts += ["", "a", " ab", "eeeeeeeeee"]
    metric = CHRF()
    expected = [[metric.sentence_score(text, [reference]).score for reference in texts] for text in texts]
    np.testing.assert_allclose(pairwise_chrf(texts), expected, atol=1e-9)


def test_one_text() -> None:
    assert pairwise_chrf(["the cat"]).tolist() == [[100.0]]
