"""Which ids of another program's vocabulary become which of ours, where 0 … 5 are special tokens."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.errors import UserError
from regard.text.vocab import BOS, EOS, MASK, PAD, SEP, SPECIALS, UNK

NEVER = -1e4
"""Logit of special tokens that are never generated, so that their probability is 0; float16 can hold it"""
SUPPRESSED = "regard_suppressed"
"""In config.json of an exported language model: our special tokens that have this logit"""


@dataclass(frozen=True)
class IdMap:
    """For each of our ids, the other program's id; −1: none."""

    size: int
    """Number of the other program's ids"""
    inputs: tuple[int, ...]
    """Whose embedding it gets"""
    outputs: tuple[int, ...]
    """Whose logit it gets. Of two of our ids with the same embedding, only one is predicted."""

    @classmethod
    def of(cls, size: int, **specials: int | None) -> "IdMap":
        """Make a map of ids 0 … size − 1, of which some are special: eos, pad, unk, bos, sep, mask."""
        ours = {"eos": EOS, "pad": PAD, "unk": UNK, "bos": BOS, "sep": SEP, "mask": MASK}
        inputs, outputs = [-1] * len(SPECIALS), [-1] * len(SPECIALS)
        for name, number in ours.items():
            theirs = specials.get(name)
            if theirs is None:
                continue
            if theirs >= size:
                raise UserError(f"the {name} token has id {theirs}, but the vocabulary ends at {size - 1}")
            inputs[number] = theirs
            if theirs not in outputs:
                outputs[number] = theirs
        others = [i for i in range(size) if i not in outputs]
        return cls(size, (*inputs, *others), (*outputs, *others))

    @classmethod
    def part(cls, size: int, ids: range) -> "IdMap":
        """Make a map of consecutive ids, which are ours in the same order, to one of `size` ids."""
        return cls(size, tuple(ids), tuple(ids))

    def suppress(self, ids: Collection[int]) -> "IdMap":
        """Return the map in which these of our special tokens are never predicted."""
        kept = [-1 if i in ids else theirs for i, theirs in enumerate(self.outputs[: len(SPECIALS)])]
        return replace(self, outputs=(*kept, *self.outputs[len(SPECIALS) :]))

    def symbols(self, theirs: Sequence[str]) -> list[str]:
        """Return the symbols of our ordinary ids; ids without a symbol get a name that occurs in no text."""
        return [theirs[i] if i < len(theirs) and theirs[i] else f"<unused {i}>" for i in self.outputs[len(SPECIALS) :]]

    def rows(self, table: Tensor, outputs: bool = False) -> Tensor:
        """Return the rows of an embedding table or output matrix in our order; zeros where there is none."""
        return _select(table, self.outputs if outputs else self.inputs, 0.0)

    def bias(self, bias: Tensor) -> Tensor:
        """Return the bias of logits [V] in our order."""
        return _select(bias, self.outputs, NEVER)


def _select(table: Tensor, rows: Sequence[int], missing: float) -> Tensor:
    extended = torch.cat([table, torch.full_like(table[:1], missing)])
    return extended[torch.tensor([len(table) if i < 0 else i for i in rows], device=table.device)]
