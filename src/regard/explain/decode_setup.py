"""What is decoded, and with what: a model of one's own, or the lecture's table of probabilities."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.errors import UserError
from regard.explain.model_input import ModelInput
from regard.explain.number_format import number
from regard.search.decode import DecodeConfig
from regard.text.labels import token_labels
from regard.text.vocab import BOS, EOS, SPECIALS

A, B, C = range(len(SPECIALS), len(SPECIALS) + 3)
LETTERS = {A: "A", B: "B", C: "C", EOS: "<eos>"}
# p(A), p(B), p(C), p(<eos>) after what was said so far
STEPS = {
    (): (0.5, 0.2, 0.2, 0.1),
    (A,): (0.1, 0.4, 0.3, 0.2),
    (A, B): (0.2, 0.2, 0.4, 0.2),
    (A, C): (0.1, 0.6, 0.2, 0.1),
    (A, B, C): (0.0, 0.2, 0.2, 0.6),
    (A, C, B): (0.1, 0.2, 0.1, 0.6),
}
MOST_STEPS = 12
_NEW_TOKENS = 8  # that a language model writes behind its prompt
_LONGEST = 36  # characters of a hypothesis in a table


@dataclass(frozen=True)
class TableState:
    said: tuple[tuple[int, ...], ...]

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> "TableState":
        return TableState(tuple(self.said[i] for i in rows.tolist()))


class LectureTable:
    """A model that looks its probabilities up; what the lecture does not say is uniform."""

    def max_target_len(self, batch: Batch) -> None:
        return None

    def start(self, batch: Batch) -> TableState:
        return TableState(((),) * batch.size)

    def step(self, state: TableState, ids: Tensor) -> tuple[Tensor, TableState]:
        said = tuple((*s, i) if i != BOS else s for s, i in zip(state.said, ids.tolist(), strict=True))
        even = (1 / len(LETTERS),) * len(LETTERS)
        p = torch.zeros(len(said), max(LETTERS) + 1, dtype=torch.float64)
        p[:, list(LETTERS)] = torch.tensor([STEPS.get(s, even) for s in said], dtype=torch.float64)
        return p.log(), TableState(said)


@dataclass(frozen=True)
class DecodeSetup:
    """What is decoded, with what, and how its tokens are written."""

    model: Any
    batch: Batch
    prefix: tuple[int, ...]
    config: DecodeConfig
    token: Callable[[int], str]
    spelt: Callable[[Sequence[int]], str]

    @classmethod
    def of(cls, own: ModelInput, **options: int) -> "DecodeSetup":
        if not own.pipeline.generates:
            raise UserError("this model gives labels; search is for models that write")
        writes_on = not own.encoded.src_ids
        prefix = tuple(own.input_ids) if writes_on else ()
        ends = {"max_len": len(prefix) + _NEW_TOKENS} if writes_on else {}
        config = own.pipeline.decode_config.model_copy(update={"n_best": 1, "sampling": None, **ends, **options})

        def token(i: int) -> str:
            return SPECIALS[i] if i < len(SPECIALS) else token_labels(own.pipeline.tgt_tokenizer.tokens([i, i]))[0]

        def spelt(ids: Sequence[int]) -> str:
            text = own.pipeline.tgt_tokenizer.decode(ids).replace("\n", "↵")
            text = f"{text} {SPECIALS[EOS]}".lstrip() if EOS in ids else text
            return text if len(text) <= _LONGEST else "…" + text[-_LONGEST:]

        return cls(own.model, nothing() if writes_on else own.encoded.batch(), prefix, config, token, spelt)

    @torch.no_grad()
    def at_once(self, ids: Sequence[int]) -> Tensor:
        """log p of each token of a target and its end, by teacher forcing"""
        target = torch.tensor([[BOS, *ids, EOS]])
        log_probs = self.model(Batch.of(self.batch.src, target))[0].log_softmax(-1)
        return log_probs.gather(-1, target[0, 1:, None]).squeeze(-1)


@torch.no_grad()
def along(model: Any, batch: Batch, ids: Sequence[int]) -> tuple[Tensor, Tensor]:
    """A token at a time: log-probabilities at each step [T + 1, V], and those of the tokens said, the end included"""
    state, found = model.start(batch), []
    for token in (BOS, *ids):
        log_probs, state = model.step(state, torch.tensor([token]))
        found.append(log_probs[0])
    said = torch.tensor([*ids, EOS])
    steps = torch.stack(found)
    return steps, steps.gather(1, said[:, None]).squeeze(1)


def nothing() -> Batch:
    """No source"""
    empty = torch.empty(1, 0, dtype=torch.int64)
    return Batch(empty, empty, empty)


def spelt(ids: Sequence[int]) -> str:
    return " ".join(LETTERS[i] for i in ids)


def product(path: Tensor) -> str:
    return f"{' · '.join(f'{p:g}' for p in path.tolist())} = {number(float(path.prod()))}"
