"""Sentences of several jobs are shared out, and put together again."""

import numpy as np
import pytest

from regard.alignment.from_attention import Aligner
from regard.pipelines.translation import Candidate, Translation
from regard.serve.translation_progress import TranslationProgress, share_sentences
from regard.text.sentences import SplitText
from tests.alignment.test_from_attention import make_record


def progress_of(*texts: str, in_order: bool = False) -> TranslationProgress:
    return TranslationProgress(texts, [SplitText.of(text, "en") for text in texts], in_order)


def translate(sentence: str) -> Translation:
    return Translation(sentence, (), (Candidate(sentence.upper(), 0.0, ()),))


@pytest.mark.parametrize(
    ("n_sentences", "expected"),
    [
        ([100], [32]),
        ([1, 100], [1, 31]),
        ([100, 100], [16, 16]),
        ([5, 100, 0, 2, 100], [0, 2, 5, 12, 13]),
        ([3] * 40, [1] * 40),
    ],
)
def test_sentences_are_shared_out(n_sentences: list[int], expected: list[int]) -> None:
    shares = share_sentences([progress_of("a\n" * n) for n in n_sentences])
    assert sorted(map(len, shares)) == expected


def test_sentences_of_similar_length_are_translated_together_and_texts_come_back_in_order() -> None:
    texts = ("One two three. A. ", "\nFour five!\n B? \n", "")
    progress = progress_of(*texts)
    first = progress.next_sentences(2)
    assert [progress.sentences[n] for n in first] == ["A.", "B?"] and progress.next_sentences(2) == first
    assert progress_of(*texts, in_order=True).next_sentences(9) == [0, 1, 2, 3]
    while numbers := progress.next_sentences(2):
        progress.add(numbers, [translate(progress.sentences[n]) for n in numbers], Aligner())
    assert progress.n_remaining == 0
    assert [translation.text for translation in progress.results()] == [text.upper() for text in texts]


def test_a_portion_takes_up_to_a_second() -> None:
    progress, sizes = progress_of("a\n" * 500), list[int]()
    for seconds in (0.2, 0.4, 0.4, 0.8, 1.2, 3.0, 3.0):
        progress.adapt(seconds)
        sizes.append(progress.portion)
    assert sizes == [64, 128, 128, 128, 64, 32, 32]


def test_alternatives_of_a_text_are_those_of_its_sentences() -> None:
    split = SplitText.of("One. Two.\n", "en")
    one, two = (tuple(Candidate(text, -1.0, (text,)) for text in texts) for texts in (("A.", "B.", "C."), ("X.", "Y.")))
    merged = Translation.merge("One. Two.\n", split, [Translation("One.", (), one), Translation("Two.", (), two)])
    assert [candidate.text for candidate in merged.hypotheses] == ["A. X.\n", "B. Y.\n", "C. Y.\n"]
    assert merged.hypotheses[1].tokens == ("B.", "Y.") and merged.hypotheses[1].score == -2.0
    whole = Translation.merge(" One.", SplitText.of(" One.", "en"), [Translation("One.", (), one)])
    assert [candidate.text for candidate in whole.hypotheses] == [" A.", " B.", " C."]


def test_attention_is_reduced_to_what_alignments_need() -> None:
    weights = np.random.default_rng(1).dirichlet([1.0, 1.0, 1.0], (4, 8, 3)).astype(np.float32)
    record = make_record(("▁a", "▁b", "</s>"), ("▁x", "▁y", "</s>"), weights[0, 0].tolist())
    record = type(record)(record.source_tokens, record.target_tokens, weights, weights, weights)
    for aligner in (Aligner(), Aligner(layer=2), Aligner(layer=3, head=7), Aligner(head=1, threshold=0.3)):
        shrunk = aligner.shrink(record)
        assert aligner(shrunk) == aligner(record)
        assert shrunk.encoder.size == shrunk.decoder.size == 0
        assert shrunk.cross.shape == weights.shape and shrunk.cross.strides[:2] == (0, 0), "one array for all heads"
