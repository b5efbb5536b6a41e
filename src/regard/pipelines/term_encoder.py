"""Terms of a glossary as the search needs them: the tokens of all their forms."""

from collections.abc import Iterator, Sequence
from itertools import islice

import torch

from regard.data.glossary import GlossaryTerm, TermMatch, count_terms
from regard.search.required_terms import RequiredTerm, TermForm, TermSearch, TokenEdges
from regard.text.fitted_text import capitalise
from regard.text.tokenizer import Tokenizer
from regard.text.vocab import UNK
from regard.text.word_edges import WordEdges, edges_of_text

_MAX_TERMS = 32  # different ones that the search looks for in one sentence
_MAX_FORMS = 128  # of all these terms
_MAX_TOKENS = 64  # of a form


class TermEncoder:
    """Encodes terms for a model that generates the tokens of `tokenizer`."""

    def __init__(self, tokenizer: Tokenizer, is_cased: bool, device: torch.device) -> None:
        self._tokenizer = tokenizer
        self._is_cased = is_cased
        self._edges = TokenEdges.of(WordEdges.of(tokenizer), device)

    def __call__(self, rows: Sequence[Sequence[TermMatch]]) -> TermSearch:
        """Return what to search for, given the terms that were found in each source."""
        return TermSearch([self._required(matches) for matches in rows], self._edges)

    def _required(self, matches: Sequence[TermMatch]) -> list[RequiredTerm]:
        """Return the terms with those forms that the tokenizer can write, up to the limits of what is searched for."""
        terms, n_forms = list[RequiredTerm](), 0
        for term, n in islice(count_terms(matches).items(), _MAX_TERMS):
            forms = tuple(self._forms(term))
            n_forms += len(forms)
            if forms and n_forms <= _MAX_FORMS:
                terms.append(RequiredTerm(forms, n))
        return terms

    def _forms(self, term: GlossaryTerm) -> Iterator[TermForm]:
        """Yield the forms of a term that the tokenizer can write.

        At the beginning of an output a term may have a capital; a model that was trained on lower-case text may write
        it in lower case. After other words it starts with a space, which may be a token of its own.
        """
        forms = [(target, False) for target in term.targets]
        if not self._is_cased:
            forms += [(target.lower(), False) for target in term.targets]
        forms += [(capitalise(target), True) for target in term.targets]
        done: set[tuple[int, ...]] = set()
        for text, only_first in forms:
            for written in (text,) if only_first else (text, " " + text):
                [ids] = self._tokenizer.encode([written])
                if ids and len(ids) <= _MAX_TOKENS and UNK not in ids and tuple(ids) not in done:
                    done.add(tuple(ids))
                    starts_with_letter, ends_with_letter = edges_of_text(written)
                    yield TermForm(tuple(ids), starts_with_letter, ends_with_letter, only_first)
