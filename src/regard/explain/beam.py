"""Beam search, step by step: P12."""

from collections.abc import Sequence
from math import exp

from regard.errors import UserError
from regard.explain.decode_setup import (
    LETTERS,
    MOST_STEPS,
    A,
    DecodeSetup,
    LectureTable,
    along,
    nothing,
    product,
    spelt,
)
from regard.explain.explanation import Explanation, Step, difference, listing, step
from regard.explain.formula import brackets, frac, math, of, power
from regard.explain.model_input import ModelInput
from regard.explain.number_format import number
from regard.search.decode import DecodeConfig, decode
from regard.search.protocols import Hypothesis
from regard.search.search_tree import Node, SearchTree
from regard.text.vocab import EOS

_SHORTEST = 3  # tokens; the lecture's sentences end at the fourth step
_WIDTH = 2
_FATES = {"kept": "goes on", "ended": "has ended", "pruned": "dropped"}
_NORM = math(of("score", "y"), "=", frac(of("log", of("P", "y")), power(brackets(frac("5 + |y|", "6")), "α")))


def beam() -> Explanation:
    config = DecodeConfig(beam=_WIDTH, length_penalty=0.0, min_len=_SHORTEST)
    asked = DecodeSetup(LectureTable(), nothing(), (), config, LETTERS.__getitem__, spelt)
    tree, found = _searched(asked)
    short = along(asked.model, asked.batch, (A,))[1].exp()
    return Explanation(
        f"Beam search with k = {_WIDTH} on the same table",
        (
            *(_round(i, nodes, asked) for i, nodes in enumerate(tree.steps, start=1)),
            _ended(tree, asked, found),
        ),
        f"Beam search says “{spelt([*found.ids, EOS])}” with {number(exp(found.log_prob))}, "
        "which greedy search missed (`regard explain greedy`).",
        (
            f"No sentence may end before {_SHORTEST} tokens here: “{spelt([A, EOS])}” has {product(short)}, more than "
            "the answer. That short sentences win is why scores are divided by a power of the length.",
            "What the lecture's table does not say (after B, for example) is uniform over the four tokens.",
        ),
    )


def beam_of_own(own: ModelInput) -> Explanation:
    asked = DecodeSetup.of(own)
    if asked.config.beam == 1:
        raise UserError("this model decodes greedily (decode.beam is 1); see `regard explain greedy`")
    tree, found = _searched(asked)
    start = len(asked.prefix)
    shown = tree.steps[start : start + MOST_STEPS]
    more = len(tree.steps) - start - len(shown)
    return Explanation(
        f"Beam search with k = {asked.config.beam} in the model: {own.quoted_text}",
        (*(_round(i, nodes, asked) for i, nodes in enumerate(shown, start=1)), _ended(tree, asked, found)),
        f"Beam search says “{own.pipeline.tgt_tokenizer.decode(found.ids)}”, with the score {number(found.score)}.",
        (f"{more} more steps are not shown.",) if more > 0 else (),
    )


def _searched(asked: DecodeSetup) -> tuple[SearchTree, Hypothesis]:
    """What the library's own search considers, step by step, and finds"""
    tree = SearchTree(asked.config.beam, asked.config.length_penalty)
    [[found]] = decode(asked.model, asked.batch, asked.config, [asked.prefix], tree)
    return tree, found


def _round(place: int, nodes: Sequence[Node], asked: DecodeSetup) -> Step:
    rows = [(asked.spelt(node.ids), node.log_prob, exp(node.log_prob), _FATES[node.state]) for node in nodes]
    return step(
        f"Step {place}: the best continuations of all hypotheses, of which at most {asked.config.beam} go on.",
        None,
        listing(f"candidates {place}", ("hypothesis", "log P", "P", ""), rows),
    )


def _ended(tree: SearchTree, asked: DecodeSetup, found: Hypothesis) -> Step:
    done = tree.ended[: asked.config.beam]
    rows = [(asked.spelt(node.ids), node.log_prob, exp(node.log_prob), node.score) for node in done]
    return step(
        f"Those that have ended, by their score with α = {asked.config.length_penalty:g}; the best one is the answer.",
        _NORM,
        listing("ended", ("hypothesis", "log P", "P", "score"), rows),
        difference(done[0].score, found.score, "largest difference from the library's own search"),
    )
