"""The letter task: copy, reverse or sort lines of letters; batches, models and exact match."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.data.batch import Batch, collate, collate_sources
from regard.data.builtin.toy_tasks import LETTERS, toy_pairs
from regard.labs.training import seeded
from regard.models import build
from regard.models.encoder_decoder import EncoderDecoder
from regard.search.decode import DecodeConfig, decode
from regard.text.ragged import Ragged
from regard.text.vocab import SPECIALS

N_LETTERS = 10


@dataclass(frozen=True)
class LetterTask:
    """Copy, reverse or sort lines whose lengths are within the given bounds."""

    name: str
    """copy, reverse or sort."""
    lengths: tuple[int, int]

    def pairs(self, n: int, seed: int) -> tuple[list[list[int]], list[list[int]]]:
        """Return `n` sources and their targets as ids."""
        pairs = toy_pairs(self.name, n, lengths=self.lengths, n_letters=N_LETTERS, seed=seed)
        return [_ids(src) for src, _ in pairs], [_ids(tgt) for _, tgt in pairs]

    def batch(self, n: int, seed: int) -> Batch:
        src, tgt = self.pairs(n, seed)
        return collate(Ragged.of(src), Ragged.of(tgt))


def build_model(options: Mapping[str, Any], seed: int) -> EncoderDecoder:
    """Build an encoder-decoder model for letters; the seed determines its initial weights."""
    with seeded(seed):
        model = build(options, len(SPECIALS) + N_LETTERS)
    assert isinstance(model, EncoderDecoder)
    return model


def exact_match(model: EncoderDecoder, task: LetterTask, n: int, seed: int) -> float:
    """Return the share of `n` lines for which greedy search gives exactly the target."""
    src, tgt = task.pairs(n, seed)
    outputs = decode(model, collate_sources(src), DecodeConfig(beam=1))
    return sum(list(best.ids) == target for [best], target in zip(outputs, tgt, strict=True)) / n


def _ids(text: str) -> list[int]:
    return [len(SPECIALS) + LETTERS.index(letter) for letter in text.split()]
