"""Lab: learned and sinusoidal positions at the far end, which few lines of a corpus reach."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from statistics import mean

import torch

from regard.data.batch import Batch, collate
from regard.data.builtin.grammar_corpus import MAX_WORDS, generate_corpus
from regard.labs.letter_task import N_LETTERS, LetterTask, build_model
from regard.labs.result import Column, LabResult, LinePanel, ResultTable
from regard.labs.training import BATCH_SIZE, Budget, heldout_seed, train_model
from regard.models.encoder_decoder import EncoderDecoder
from regard.text.ragged import Ragged

QUESTION = "Why do learned positions fail at the far end?"
FULL, QUICK = Budget(700, 300), Budget(10, 20)
LEARNED, SINUSOIDAL = "learned", "sinusoidal"
POSITIONS = range(1, MAX_WORDS + 1)
SHOWN = (1, *range(5, MAX_WORDS + 1, 5))
FAR = 2 * MAX_WORDS // 3 + 1
"""The first position of the last third."""
LOW = 0.1
"""Errors up to this share count as low."""
_N_SENTENCES = 2000
_SIZES = {"d_model": 64, "n_heads": 4, "d_ff": 128, "n_layers": 1, "dropout": 0.0}
_COLUMNS = {
    "lines": Column("lines in training that reach it", ",.0f"),
    LEARNED: Column("error, learned positions", ".1%"),
    SINUSOIDAL: Column("error, sinusoidal positions", ".1%"),
}
_LONGEST = LetterTask("copy", (MAX_WORDS, MAX_WORDS))


@dataclass(frozen=True)
class CorpusLengthTask:
    """Copy lines of letters that are as long as the sentences of a corpus."""

    lengths: tuple[int, ...]
    """The length of each sentence, at most `MAX_WORDS`."""

    def batch(self, n: int, seed: int) -> Batch:
        generator = random.Random(seed)
        lines = [line[: generator.choice(self.lengths)] for line in _LONGEST.pairs(n, seed)[0]]
        return collate(Ragged.of(lines), Ragged.of(lines))

    def expected_lines(self, n: int) -> list[float]:
        """Return how many of `n` lines reach each of `POSITIONS`, in expectation."""
        return [n * sum(length >= p for length in self.lengths) / len(self.lengths) for p in POSITIONS]


def run(seed: int = 1, budget: Budget = FULL) -> LabResult:
    task = CorpusLengthTask(sentence_lengths(seed))
    lines = task.expected_lines(budget.updates * BATCH_SIZE)
    errors: dict[str, list[float]] = {}
    for kind in (LEARNED, SINUSOIDAL):
        model = build_model({**_SIZES, "positions": kind}, seed)
        train_model(model, task, budget.updates, lr=5e-3, seed=seed)
        errors[kind] = error_by_position(model, budget.samples, seed)
    rows: dict[tuple[str, ...], dict[str, float]] = {
        (str(p),): {"lines": lines[p - 1], **{kind: errors[kind][p - 1] for kind in errors}} for p in SHOWN
    }
    table = ResultTable(("position",), _COLUMNS, rows)
    setup = (
        f"A Transformer learns in {budget.updates:,} updates of {BATCH_SIZE} lines to copy lines of letters that are "
        f"as long as the sentences of the built-in corpus: {min(task.lengths)} to {max(task.lengths)} words, "
        f"{sum(task.lengths) / len(task.lengths):.1f} on average. Its positions are learned or sinusoidal. The test is "
        f"{budget.samples:,} new lines of {MAX_WORDS} letters, with the right output so far given to the decoder."
    )
    return LabResult(QUESTION, setup, table, answer(lines, errors), _panels(lines, errors))


def sentence_lengths(seed: int) -> tuple[int, ...]:
    """Return the numbers of words of sentences of the built-in corpus."""
    return tuple(len(pair.src.split()) for pair in generate_corpus(_N_SENTENCES, 0, 0, seed=seed)["train"])


@torch.inference_mode()
def error_by_position(model: EncoderDecoder, n: int, seed: int) -> list[float]:
    """Return the share of wrong letters at each of `POSITIONS`, on `n` new lines of the greatest length."""
    batch = _LONGEST.batch(n, heldout_seed(seed))
    wrong = model(batch).argmax(-1) != batch.tgt_out
    return wrong[:, :MAX_WORDS].float().mean(0).tolist()


def last_low(errors: Sequence[float]) -> int:
    """Return the position up to which all errors are low; 0 if there is none."""
    return len(list(takewhile(lambda error: error <= LOW, errors)))


def answer(lines: Sequence[float], errors: Mapping[str, Sequence[float]]) -> tuple[str, str, str]:
    """Return the answer to the question, given the numbers of lines and the errors at each of `POSITIONS`."""
    low = {kind: last_low(errors[kind]) for kind in errors}
    far = {kind: f"{mean(errors[kind][FAR - 1 :]):.1%}" for kind in errors}
    further = low[SINUSOIDAL] > low[LEARNED]
    return (
        f"Few sentences are long: of {lines[0]:,.0f} lines in training about {lines[FAR - 1]:,.0f} reach position "
        f"{FAR} and {lines[-1]:,.0f} position {MAX_WORDS}.",
        f"The vector of a learned position is trained by these lines alone: the error is at most {LOW:.0%} "
        f"{_range(lines, low[LEARNED])}, and from position {FAR} on {far[LEARNED]} of the letters are wrong (chance: "
        f"{1 - 1 / N_LETTERS:.0%}).",
        "Sinusoidal positions are the same functions everywhere, so that what the model learns at near positions can "
        f"hold further away; in this run it {'did' if further else 'did not'}: the error is at most {LOW:.0%} "
        f"{_range(lines, low[SINUSOIDAL])}, and from position {FAR} on {far[SINUSOIDAL]} of the letters are wrong.",
    )


def _range(lines: Sequence[float], position: int) -> str:
    return f"up to position {position} (reached by {lines[position - 1]:,.0f} lines)" if position else "at no position"


def _panels(lines: Sequence[float], errors: Mapping[str, Sequence[float]]) -> tuple[LinePanel, LinePanel]:
    return (
        LinePanel("Few lines reach far positions", "position", "lines in training", POSITIONS, {"": lines}, "y"),
        LinePanel("Error by position", "position", "wrong letters, %", POSITIONS, errors, percent=True),
    )
