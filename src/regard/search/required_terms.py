"""Terms that an output must contain, and how far each hypothesis has come with them; all tensors of fixed shapes."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from regard.nn.constants import numbers
from regard.text.vocab import BOS
from regard.text.word_edges import WordEdges

_NO_ID = -1
_MAX_ENTRIES = 1 << 25  # of a table of the progress of all continuations
_ROUNDED = 4  # sizes are rounded up to powers of two of at least this, because each is captured separately


class TermForm(NamedTuple):
    """The tokens of one form of a term"""

    ids: tuple[int, ...]
    starts_with_letter: bool = True
    ends_with_letter: bool = True
    only_first: bool = False
    """Whether it counts only at the beginning of the output"""


class RequiredTerm(NamedTuple):
    """A term that must occur `times` times, in any of its forms"""

    forms: tuple[TermForm, ...]
    times: int = 1


@dataclass(frozen=True, eq=False)
class TokenEdges:
    """`WordEdges` on a device. Compared by identity, because captured steps refer to its memory."""

    starts_with_letter: Tensor
    starts_with_mark: Tensor
    ends_with_letter: Tensor

    @classmethod
    def of(cls, edges: WordEdges, device: torch.device) -> "TokenEdges":
        tables = (edges.starts_with_letter, edges.starts_with_mark, edges.ends_with_letter)
        return cls(*(torch.from_numpy(table).to(device) for table in tables))


@dataclass(frozen=True)
class TermSearch:
    """The terms that the outputs of some sentences must contain"""

    rows: Sequence[Sequence[RequiredTerm]]
    """Of each sentence; may be empty"""
    edges: TokenEdges

    def n_slots(self, most: int, beam: int) -> int:
        """Return how many sentences to search at once, at most `most`, so that tables of progress stay small."""
        n_forms, length = _rounded(max(map(_n_forms, self.rows))), _rounded(max(map(_longest_form, self.rows)))
        n_entries = beam * (2 * beam + n_forms + 1) * n_forms * length
        return max(1, min(most, _MAX_ENTRIES // n_entries))

    def select(self, rows: Iterable[int]) -> "TermSearch":
        """Return the terms of some sentences."""
        return TermSearch([self.rows[i] for i in rows], self.edges)


@dataclass(frozen=True)
class RequiredTerms:
    """The C terms of each of N sentences in all P forms, of up to L tokens."""

    ids: Tensor
    """[N, P, L]; −1 after the end of a form"""
    lengths: Tensor
    """[N, P]: tokens of each form; 0: no form"""
    terms: Tensor
    """[N, P]: the term that each form belongs to"""
    starts_with_letter: Tensor
    """[N, P] bool"""
    ends_with_letter: Tensor
    """[N, P] bool"""
    only_first: Tensor
    """[N, P] bool: counts only at the beginning of the output"""
    counts: Tensor
    """[N, C]: how often each term must occur; 0: no term"""
    term_lengths: Tensor
    """[N, C]: tokens of the longest form of each term"""

    @classmethod
    def of(cls, rows: Sequence[Sequence[RequiredTerm]], device: torch.device) -> "RequiredTerms":
        """Make the tensors for the terms of each sentence."""
        forms = [[(c, form) for c, term in enumerate(row) for form in term.forms] for row in rows]
        n_forms, n_terms = _rounded(max(map(_n_forms, rows))), _rounded(max(map(len, rows)))
        length = _rounded(max(map(_longest_form, rows)))
        nothing = (n_terms - 1, TermForm((), False, False))
        padded = [[*row, *[nothing] * (n_forms - len(row))] for row in forms]

        def per_form(value: Callable[[TermForm], object]) -> Tensor:
            return torch.tensor([[value(form) for _, form in row] for row in padded], device=device)

        def per_term(value: Callable[[RequiredTerm], int]) -> Tensor:
            return torch.tensor([[*map(value, row), *[0] * (n_terms - len(row))] for row in rows], device=device)

        return cls(
            per_form(lambda form: [*form.ids, *[_NO_ID] * (length - len(form.ids))]),
            per_form(lambda form: len(form.ids)),
            torch.tensor([[c for c, _ in row] for row in padded], device=device),
            per_form(lambda form: form.starts_with_letter),
            per_form(lambda form: form.ends_with_letter),
            per_form(lambda form: form.only_first),
            per_term(lambda term: term.times),
            per_term(lambda term: max(len(form.ids) for form in term.forms)),
        )

    @property
    def n_tokens(self) -> Tensor:
        """[N]: tokens that the longest forms of all terms have"""
        return (self.counts * self.term_lengths).sum(1)

    def any_form(self, forms: Tensor) -> Tensor:
        """[N, M, P] bool → [N, M, C] bool: whether it is true of any form of a term"""
        n, m, _ = forms.shape
        n_forms = torch.zeros(n, m, self.counts.shape[1], dtype=torch.int64, device=forms.device)
        return n_forms.scatter_add(2, self._terms(m), forms.long()) > 0

    def each_form(self, terms: Tensor) -> Tensor:
        """[N, M, C] → [N, M, P]: the value of the term that each form belongs to"""
        return terms.gather(2, self._terms(terms.shape[1]))

    def _terms(self, m: int) -> Tensor:
        return self.terms[:, None].expand(-1, m, -1)


@dataclass(frozen=True)
class TermProgress:
    """How far M hypotheses of each sentence have come with its terms."""

    found: Tensor
    """[N, M, C]: how often each term occurs in the tokens before the last one

    Whether the last token completes a term depends on the next one, which may continue the word.
    """
    matched: Tensor
    """[N, M, P, L] bool: the last l + 1 tokens are the first l + 1 tokens of form p"""

    @classmethod
    def none(cls, required: RequiredTerms, m: int) -> "TermProgress":
        """Return the progress of m empty hypotheses."""
        (n, p, length), device = required.ids.shape, required.ids.device
        found = torch.zeros(n, m, required.counts.shape[1], dtype=torch.int64, device=device)
        return cls(found, torch.zeros(n, m, p, length, dtype=torch.bool, device=device))

    def select(self, hypotheses: Tensor) -> "TermProgress":
        """Take some hypotheses, [N, m] of M."""
        found, matched = self.found, self.matched
        return TermProgress(
            found.gather(1, hypotheses[:, :, None].expand(-1, -1, found.shape[2])),
            matched.gather(1, hypotheses[:, :, None, None].expand(-1, -1, *matched.shape[2:])),
        )

    def read(self, required: RequiredTerms, last: Tensor, ids: Tensor, edges: TokenEdges) -> "TermProgress":
        """Return the progress after the tokens ids [N, M], which follow the tokens `last`.

        Occurrences of one term do not overlap: the one that ends first counts.
        """
        letter, mark = edges.starts_with_letter[ids][:, :, None], edges.starts_with_mark[ids][:, :, None]
        ends_word = ~(mark | (letter & required.ends_with_letter[:, None]))
        occurs = required.any_form(self.is_complete(required) & ends_word)
        continued = self.matched & ~required.each_form(occurs)[..., None]

        in_word = letter & edges.ends_with_letter[last][:, :, None] & required.starts_with_letter[:, None]
        may_start = ~(mark | in_word) & ((last == BOS)[:, :, None] | ~required.only_first[:, None])
        before = torch.cat([may_start[..., None], continued[..., :-1]], dim=3)
        return TermProgress(self.found + occurs, before & (required.ids[:, None] == ids[:, :, None, None]))

    def is_complete(self, required: RequiredTerms) -> Tensor:
        """[N, M, P] bool: the last tokens are the whole form"""
        return (self.n_matched() == required.lengths[:, None]) & (required.lengths > 0)[:, None]

    def n_matched(self) -> Tensor:
        """[N, M, P]: tokens of each form that have been generated"""
        lengths = (numbers(self.matched.shape[3], self.matched.device) + 1).to(torch.int16)  # which take less memory
        return (self.matched * lengths).amax(3).long()

    def n_missing(self, required: RequiredTerms) -> Tensor:
        """[N, M, C]: how often each term must still occur after the last token, if that completes what it can"""
        return (required.counts[:, None] - self.found - required.any_form(self.is_complete(required)).long()).clamp(
            min=0
        )

    def n_remaining(self, required: RequiredTerms) -> Tensor:
        """[N, M]: tokens that are still required, as the longest form of each term has them"""
        missing, lengths = self.n_missing(required), required.term_lengths[:, None]
        n_matched = self.n_matched().masked_fill(self.is_complete(required), 0)
        n_tokens = n_matched * required.each_form(lengths) // required.lengths.clamp(min=1)[:, None]
        return (missing * lengths).sum(2) - (n_tokens * (required.each_form(missing) > 0)).amax(2)

    def next_ids(self, required: RequiredTerms) -> Tensor:
        """[N, M, P]: the token that continues each form or starts it; −1 if its term is not missing"""
        position = self.n_matched().masked_fill(self.is_complete(required), 0)
        ids = required.ids[:, None].expand(-1, position.shape[1], -1, -1).gather(3, position[..., None]).squeeze(3)
        return ids.masked_fill(required.each_form(self.n_missing(required)) == 0, _NO_ID)


def _n_forms(row: Sequence[RequiredTerm]) -> int:
    return sum(len(term.forms) for term in row)


def _longest_form(row: Sequence[RequiredTerm]) -> int:
    return max((len(form.ids) for term in row for form in term.forms), default=0)


def _rounded(n: int) -> int:
    return max(_ROUNDED, 1 << (n - 1).bit_length())
