"""Beam search, step by step: P12."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp

import torch
from torch import Tensor

from regard.errors import UserError
from regard.look.worked.asked import LETTERS, MOST_STEPS, A, Asked, LectureTable, along, nothing, product, spelt
from regard.look.worked.formula import brackets, frac, math, of, power
from regard.look.worked.numerals import number
from regard.look.worked.own import Own
from regard.look.worked.worked import Step, Worked, difference, listing, step
from regard.search.beam import Beam, Ended, advance
from regard.search.constraints import Constraints, MaxLength, MinLength, Prefix, Suppress
from regard.search.decode import DecodeConfig, decode, length_limits
from regard.search.step import Hypothesis
from regard.text.vocab import BOS, EOS, MASK, PAD, SEP

_SHORTEST = 3  # tokens; the lecture's sentences end at the fourth step
_WIDTH = 2
_NORM = math(of("score", "y"), "=", frac(of("log", of("P", "y")), power(brackets(frac("5 + |y|", "6")), "α")))


def beam() -> Worked:
    config = DecodeConfig(beam=_WIDTH, length_penalty=0.0, min_len=_SHORTEST)
    asked = Asked(LectureTable(), nothing(), (), config, LETTERS.__getitem__, spelt)
    rounds = list(_rounds(asked))
    [[found]] = decode(asked.model, asked.batch, config)
    short = along(asked.model, asked.batch, (A,))[1].exp()
    return Worked(
        f"Beam search with k = {_WIDTH} on the same table",
        (
            *(_round(i, each, asked) for i, each in enumerate(rounds, start=1)),
            _ended(rounds[-1], asked, found),
        ),
        f"Beam search says “{spelt([*found.ids, EOS])}” with {number(exp(found.log_prob))}, "
        "which greedy search missed (`regard explain greedy`).",
        (
            f"No sentence may end before {_SHORTEST} tokens here: “{spelt([A, EOS])}” has {product(short)}, more than "
            "the answer. That short sentences win is why scores are divided by a power of the length.",
            "What the lecture's table does not say (after B, for example) is uniform over the four tokens.",
        ),
    )


def beam_of_own(own: Own) -> Worked:
    asked = Asked.of(own)
    if asked.config.beam == 1:
        raise UserError("this model decodes greedily (decode.beam is 1); see `regard explain greedy`")
    rounds = list(_rounds(asked))
    [[found]] = decode(asked.model, asked.batch, asked.config, [asked.prefix])
    start = len(asked.prefix)
    shown = rounds[start : start + MOST_STEPS]
    more = len(rounds) - start - len(shown)
    return Worked(
        f"Beam search with k = {asked.config.beam} in the model: {own.quoted}",
        (*(_round(i, each, asked) for i, each in enumerate(shown, start=1)), _ended(rounds[-1], asked, found)),
        f"Beam search says “{own.writer.decode(found.ids)}”, with the score {number(found.score)}.",
        (f"{more} more steps are not shown.",) if more > 0 else (),
    )


@dataclass(frozen=True)
class Round:
    """One step of the beam: candidates [tokens, log P], what goes on, and all that has ended until now"""

    candidates: tuple[tuple[tuple[int, ...], float], ...]
    alive: frozenset[tuple[int, ...]]
    ended: Ended


@torch.no_grad()
def _rounds(asked: Asked) -> Iterator[Round]:
    """The steps of `beam_search` on one sentence, which end as it ends."""
    k, alpha, cpu = asked.config.beam, asked.config.length_penalty, torch.device("cpu")
    limits = length_limits(asked.batch, asked.config, [asked.prefix])
    if (room := asked.model.room(asked.batch)) is not None:
        limits = limits.minimum(room)
    rows = torch.zeros(k, dtype=torch.int64)
    forbidding = (Suppress((PAD, BOS, SEP, MASK)), MinLength(asked.config.min_len))
    demanding = (MaxLength(limits), Prefix.of([asked.prefix], cpu))
    constraints = Constraints(forbidding, demanding).select(rows)
    state, beam_, ended = asked.model.start(asked.batch).select(rows), Beam.start(1, k, cpu), Ended.none(1, k, cpu)
    while True:
        log_probs, state = asked.model.step(state, beam_.tokens[0, :, -1])
        log_probs = constraints(log_probs, beam_.tokens[0])
        candidates = _candidates(beam_, log_probs)
        beam_, ended, parents, _ = advance(beam_, ended, log_probs, alpha)
        growing = beam_.log_probs[0] > -torch.inf
        yield Round(candidates, frozenset(tuple(row[1:]) for row in beam_.tokens[0, growing].tolist()), ended)
        hopeless = beam_.best_possible(limits, alpha) <= ended.scores[:, 0]
        if not growing.any() or (int(ended.counts) >= k and bool(hopeless)):
            return
        state, constraints = state.select(parents[0]), constraints.select(parents[0])


def _candidates(beam_: Beam, log_probs: Tensor) -> tuple[tuple[tuple[int, ...], float], ...]:
    """The 2k best continuations, of which a step of the beam chooses"""
    k, n_vocab = beam_.log_probs.shape[1], log_probs.shape[1]
    totals = (beam_.log_probs[0, :, None] + log_probs).flatten()
    top, index = totals.topk(min(2 * k, len(totals)))
    said = beam_.tokens[0, :, 1:].tolist()
    rows = zip(top.tolist(), index.tolist(), strict=True)
    return tuple(((*said[i // n_vocab], i % n_vocab), p) for p, i in rows if p > -torch.inf)


def _round(place: int, each: Round, asked: Asked) -> Step:
    k = asked.config.beam
    rows = []
    for rank, (ids, log_prob) in enumerate(each.candidates):
        fate = "goes on" if ids in each.alive else "has ended" if ids[-1] == EOS and rank < k else "dropped"
        rows.append((asked.spelt(ids), log_prob, exp(log_prob), fate))
    return step(
        f"Step {place}: the best continuations of all hypotheses, of which at most {k} go on.",
        None,
        listing(f"candidates {place}", ("hypothesis", "log P", "P", ""), rows),
    )


def _ended(last: Round, asked: Asked, found: Hypothesis) -> Step:
    done = last.ended.hypotheses(0, asked.config.beam)
    rows = [(asked.spelt([*h.ids, EOS]), h.log_prob, exp(h.log_prob), h.score) for h in done]
    return step(
        f"Those that have ended, by their score with α = {asked.config.length_penalty:g}; the best one is the answer.",
        _NORM,
        listing("ended", ("hypothesis", "log P", "P", "score"), rows),
        difference(done[0].score, found.score, "largest difference from the library's own search"),
    )
