"""Lines of letters that are copied, reversed or sorted, as batches; and how many come out exactly right."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.data.batch import Batch, Ragged, collate, collate_sources
from regard.data.builtin.toy_tasks import LETTERS, toy_pairs
from regard.labs.training import seeded
from regard.models import build
from regard.models.encoder_decoder import EncoderDecoder
from regard.search.decode import DecodeConfig, decode
from regard.text.vocab import SPECIALS

N_LETTERS = 10


@dataclass(frozen=True)
class Letters:
    task: str
    lengths: tuple[int, int]

    def pairs(self, n: int, seed: int) -> tuple[list[list[int]], list[list[int]]]:
        """Sources and targets as ids"""
        pairs = toy_pairs(self.task, n, lengths=self.lengths, n_letters=N_LETTERS, seed=seed)
        return [_ids(src) for src, _ in pairs], [_ids(tgt) for _, tgt in pairs]

    def batch(self, n: int, seed: int) -> Batch:
        src, tgt = self.pairs(n, seed)
        return collate(Ragged.of(src), Ragged.of(tgt))


def new_model(options: Mapping[str, Any], seed: int) -> EncoderDecoder:
    with seeded(seed):
        model = build(options, len(SPECIALS) + N_LETTERS)
    assert isinstance(model, EncoderDecoder)
    return model


def exact(model: EncoderDecoder, task: Letters, n: int, seed: int) -> float:
    """The share of `n` lines that greedy search answers without a mistake"""
    src, tgt = task.pairs(n, seed)
    found = decode(model, collate_sources(src), DecodeConfig(beam=1))
    return sum(list(best.ids) == right for [best], right in zip(found, tgt, strict=True)) / n


def _ids(text: str) -> list[int]:
    return [len(SPECIALS) + LETTERS.index(letter) for letter in text.split()]
