"""Embeddings and output layers by piece: each row belongs to one piece of a tokenizer."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.text.list_tokenizer import ListTokenizer
from regard.text.tokenizer import Tokenizer, TokenizerPair
from regard.text.vocab import SPECIALS

Side = Literal["src", "tgt"]
Parts = tuple[int, ...]
"""Ids of another tokenizer that form one piece: one id is the same piece, none: it cannot be formed"""


class PieceTable(NamedTuple):
    """A parameter with a row per piece of the source or the target tokenizer."""

    parameter: nn.Parameter
    side: Side


class PieceCounts(NamedTuple):
    """Where the rows of a tokenizer's pieces come from."""

    same: int
    """Pieces that the other tokenizer has too"""
    joined: int
    """Pieces that start as the mean of their parts"""
    new: int

    @classmethod
    def of(cls, matches: Sequence[Parts]) -> "PieceCounts":
        same, new = sum(len(parts) == 1 for parts in matches), sum(not parts for parts in matches)
        return cls(same, len(matches) - same - new, new)


def piece_tables(model: nn.Module) -> dict[str, PieceTable]:
    """Return the parameters with a row per piece, by their role; a shared parameter has several roles."""
    tables: dict[str, PieceTable] = {}
    sides: dict[str, Side] = {"decoder": "tgt", "encoder": "src", "output": "tgt"}
    for role, side in sides.items():
        part = getattr(model, role, None)
        for module in part.modules() if isinstance(part, nn.Module) else ():
            if isinstance(module, nn.Embedding) or role == "output":
                tables |= {f"{role} {name}": PieceTable(p, side) for name, p in module.named_parameters(recurse=False)}
    return tables


def match_pieces(tokenizer: Tokenizer, other: Tokenizer) -> list[Parts]:
    """Return for each piece of a tokenizer the ids of the other one that form it.

    A piece that the other tokenizer does not have is divided into its longest pieces, from the left. Labels are not
    divided, and are never pieces of a text.
    """
    if tokenizer.to_bytes() == other.to_bytes():
        return [(i,) for i in range(tokenizer.size)]
    if _has_labels(tokenizer) != _has_labels(other):
        return [()] * tokenizer.size
    specials: list[Parts] = [(i,) for i in range(len(SPECIALS))]
    theirs = range(len(SPECIALS), other.size)
    ids = dict(zip(reversed(other.tokens(theirs)), reversed(theirs), strict=True))  # of equal pieces the first counts
    longest = 0 if _has_labels(other) else max(map(len, ids), default=0)
    pieces = tokenizer.tokens(range(len(SPECIALS), tokenizer.size))
    return specials + [(ids[piece],) if piece in ids else _divide(piece, ids, longest) for piece in pieces]


@torch.no_grad()
def copy_rows(model: nn.Module, tokenizers: TokenizerPair, other: nn.Module, others: TokenizerPair) -> int:
    """Copy the rows of pieces from another model's tables of the same roles; return how many numbers were copied.

    A row is that of the same piece or the mean of the rows of its parts; rows of other pieces stay as they are.
    """
    theirs, copied = piece_tables(other), 0
    done: dict[nn.Parameter, Tensor] = {}
    for role, (parameter, side) in piece_tables(model).items():
        source = theirs.get(role)
        if source is None or source.parameter.shape[1:] != parameter.shape[1:]:
            continue
        rows, matched = _rows(source.parameter, match_pieces(getattr(tokenizers, side), getattr(others, source.side)))
        new = matched & ~done.get(parameter, torch.zeros_like(matched))  # a shared table may have its row already
        parameter[new.to(parameter.device)] = rows[new].to(parameter)
        done[parameter] = matched | done.get(parameter, matched)
        copied += int(new.sum()) * parameter[0].numel()
    return copied


def _rows(table: Tensor, matches: Sequence[Parts]) -> tuple[Tensor, Tensor]:
    """Return the mean row of the parts of each piece, and whether there is one: [V, …], [V]"""
    ids = torch.tensor([i for parts in matches for i in parts], dtype=torch.int64)
    counts = torch.tensor([len(parts) for parts in matches])
    starts = counts.cumsum(0) - counts
    rows = F.embedding_bag(ids, table.detach().cpu().reshape(len(table), -1), starts, mode="mean")
    return rows.reshape(len(matches), *table.shape[1:]), counts > 0


def _has_labels(tokenizer: Tokenizer) -> bool:
    return isinstance(tokenizer, ListTokenizer) and tokenizer.kind == "label"


def _divide(piece: str, ids: dict[str, int], longest: int) -> Parts:
    """Divide a piece into the longest known ones, from the left; nothing if some character is unknown."""
    parts, start = [], 0
    while start < len(piece):
        ends = range(min(len(piece), start + longest), start, -1)
        end = next((end for end in ends if piece[start:end] in ids), None)
        if end is None:
            return ()
        parts.append(ids[piece[start:end]])
        start = end
    return tuple(parts)
