"""The claims of the lab `far-positions`: few lines reach far positions, and learned positions fail there."""

from statistics import mean

import pytest

from regard.labs.far_positions import (
    LEARNED,
    POSITIONS,
    SINUSOIDAL,
    CorpusLengthTask,
    answer,
    error_by_position,
    last_low,
    sentence_lengths,
)
from regard.labs.letter_task import build_model
from regard.labs.training import train_model
from regard.text.vocab import EOS, PAD


def test_lines_are_copied_and_as_long_as_the_sentences() -> None:
    batch = CorpusLengthTask((3, 5)).batch(40, seed=1)
    lines = [[token for token in row if token not in (EOS, PAD)] for row in batch.src.tolist()]
    assert {len(line) for line in lines} == {3, 5}
    assert [[token for token in row if token not in (EOS, PAD)] for row in batch.tgt_out.tolist()] == lines


def test_expected_lines_count_the_sentences_that_reach_a_position() -> None:
    lines = CorpusLengthTask((2, 2, 3, 30)).expected_lines(100)
    assert lines == [100, 100, 50, *[25] * 27]
    natural = CorpusLengthTask(sentence_lengths(1)).expected_lines(1000)
    assert natural[0] == 1000 and natural == sorted(natural, reverse=True) and natural[20] < 50


def test_learned_positions_that_no_line_reaches_give_errors() -> None:
    sizes = {"d_model": 32, "n_heads": 2, "d_ff": 64, "n_layers": 1, "dropout": 0.0, "positions": LEARNED}
    model = build_model(sizes, 2)
    train_model(model, CorpusLengthTask((4, 6)), 150, lr=1e-2, seed=2)
    errors = error_by_position(model, 50, seed=2)
    assert len(errors) == len(POSITIONS)
    assert mean(errors[:4]) < mean(errors[6:]) - 0.2


def test_last_low_is_the_last_position_before_the_first_high_error() -> None:
    assert [last_low(errors) for errors in ([0.0, 0.1, 0.2, 0.0], [0.5, 0.0], [0.0] * 30)] == [2, 0, 30]


@pytest.mark.parametrize(("learned", "sinusoidal", "expected"), [(10, 18, "it did: "), (18, 10, "it did not: ")])
def test_the_answer_follows_the_numbers(learned: int, sinusoidal: int, expected: str) -> None:
    errors = {kind: [0.0] * low + [0.9] * (30 - low) for kind, low in ((LEARNED, learned), (SINUSOIDAL, sinusoidal))}
    text = " ".join(answer([1000.0] * 30, errors))
    assert expected in text and f"up to position {learned} " in text and f"up to position {sinusoidal} " in text
