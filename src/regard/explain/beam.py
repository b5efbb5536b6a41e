"""Beam search, step by step: P12."""

from collections.abc import Sequence
from math import exp

from regard.errors import UserError
from regard.explain.decode_setup import MAX_STEPS, DecodeSetup, format_product
from regard.explain.explanation import Explanation, Step, max_difference, step, table
from regard.explain.formula import apply, brackets, expr, frac, power
from regard.explain.lecture_table import A, join_tokens
from regard.explain.model_input import ModelInput
from regard.explain.number_format import format_number
from regard.search.decode import DecodeConfig, decode
from regard.search.protocols import Hypothesis
from regard.search.search_tree import Node, SearchTree
from regard.text.vocab import EOS

_MIN_LEN = 3  # tokens; the lecture's sentences end at the fourth step
_BEAM = 2
_STATES = {"kept": "kept", "ended": "finished", "pruned": "pruned"}
_SCORE = expr(apply("score", "y"), "=", frac(apply("log", apply("P", "y")), power(brackets(frac("5 + |y|", "6")), "α")))


def explain_beam() -> Explanation:
    setup = DecodeSetup.of_lecture(DecodeConfig(beam=_BEAM, length_penalty=0.0, min_len=_MIN_LEN))
    tree, best = _search(setup)
    short_probabilities = setup.score_stepwise((A,))[1].exp()
    return Explanation(
        f"Beam search with k = {_BEAM} on the same table",
        (
            *(_candidate_step(i, nodes, setup) for i, nodes in enumerate(tree.steps, start=1)),
            _finished_step(tree, setup, best),
        ),
        f"Beam search finds “{join_tokens([*best.ids, EOS])}” with {format_number(exp(best.log_prob))}, which greedy "
        "search missed (`regard explain greedy`).",
        (
            f"Here no sentence may end before {_MIN_LEN} tokens, because “{join_tokens([A, EOS])}” has "
            f"{format_product(short_probabilities)}, more than the result. Short sentences win because every token "
            "lowers the probability; this is why scores are divided by a power of the length.",
            "After a prefix that the lecture's table does not give (B, for example), the four tokens are equally "
            "likely.",
        ),
    )


def explain_beam_on_model(model_input: ModelInput) -> Explanation:
    setup = DecodeSetup.of_model(model_input)
    if setup.config.beam == 1:
        raise UserError("this model decodes greedily (decode.beam is 1); see `regard explain greedy`")
    tree, best = _search(setup)
    start = len(setup.prefix)
    shown = tree.steps[start : start + MAX_STEPS]
    n_hidden = len(tree.steps) - start - len(shown)
    return Explanation(
        f"Beam search with k = {setup.config.beam} in the model: {model_input.short_text}",
        (
            *(_candidate_step(i, nodes, setup) for i, nodes in enumerate(shown, start=1)),
            _finished_step(tree, setup, best),
        ),
        f"Beam search generates “{model_input.pipeline.tgt_tokenizer.decode(best.ids)}” with the score "
        f"{format_number(best.score)}.",
        (f"{n_hidden} more steps are not shown.",) if n_hidden > 0 else (),
    )


def _search(setup: DecodeSetup) -> tuple[SearchTree, Hypothesis]:
    """Run the library's search and return all candidates of each step, and the best hypothesis."""
    tree = SearchTree(setup.config.beam, setup.config.length_penalty)
    [[best]] = decode(setup.model, setup.batch, setup.config, [setup.prefix], tree)
    return tree, best


def _candidate_step(number: int, nodes: Sequence[Node], setup: DecodeSetup) -> Step:
    rows = [
        (setup.format_hypothesis(node.ids), node.log_prob, exp(node.log_prob), _STATES[node.state]) for node in nodes
    ]
    return step(
        f"Step {number}: the best continuations of all hypotheses; at most {setup.config.beam} are kept.",
        table(f"candidates {number}", ("hypothesis", "log P", "P", ""), rows),
    )


def _finished_step(tree: SearchTree, setup: DecodeSetup, best: Hypothesis) -> Step:
    finished = tree.ended[: setup.config.beam]
    rows = [(setup.format_hypothesis(node.ids), node.log_prob, exp(node.log_prob), node.score) for node in finished]
    return step(
        f"The finished hypotheses, ranked by their score with α = {setup.config.length_penalty:g}; the first is the "
        "result.",
        _SCORE,
        table("finished", ("hypothesis", "log P", "P", "score"), rows),
        max_difference(finished[0].score, best.score, "largest difference from the library's own search"),
    )
