"""Greedy search, step by step: W8 and P11."""

from torch import Tensor

from regard.explain.decode_setup import MAX_STEPS, DecodeSetup, format_product
from regard.explain.explanation import Explanation, Step, matrix, max_difference, step, table
from regard.explain.formula import apply, expr, sub, sum_over
from regard.explain.lecture_table import A, B, C, join_tokens
from regard.explain.model_input import ModelInput
from regard.explain.number_format import format_number
from regard.search.decode import DecodeConfig, decode
from regard.text.vocab import EOS

_N_SHOWN = 5  # most likely tokens per step
_NEXT = apply("P", expr(sub("y", "t"), "|", sub("y", "<t"), ", c"))
_CHOICE = expr(sub("y", "t"), "=", sub("argmax", "y"), apply("P", expr("y |", sub("y", "<t"), ", c")))
_PRODUCT = expr(apply("P", "y"), "=", sub("Π", "t"), _NEXT)
_LOG_SUM = expr(apply("log", apply("P", "y")), "=", sum_over("t", apply("log", _NEXT)))


def explain_greedy() -> Explanation:
    setup = DecodeSetup.of_lecture(DecodeConfig(beam=1, length_penalty=0.0))
    [[hypothesis]] = decode(setup.model, setup.batch, setup.config)
    ids, other_ids = [*hypothesis.ids, EOS], [A, C, B, EOS]
    all_log_probs, log_probs = setup.score_stepwise(hypothesis.ids)
    probabilities, other_probabilities = log_probs.exp(), setup.score_stepwise(other_ids[:-1])[1].exp()
    return Explanation(
        "Greedy search takes the most likely token at each step, and misses a more likely sentence",
        (
            *_choice_steps(setup, ids, all_log_probs),
            step(
                "The probability of this sentence.",
                _PRODUCT,
                matrix("greedy", probabilities),
                matrix("P(greedy)", probabilities.prod()),
            ),
            step(
                f"Another path through the same table, “{join_tokens(other_ids)}”, with C where greedy search took B.",
                _PRODUCT,
                matrix("other", other_probabilities),
                matrix("P(other)", other_probabilities.prod()),
            ),
        ),
        f"Greedy search finds “{join_tokens(ids)}” with {format_product(probabilities)}. But "
        f"“{join_tokens(other_ids)}” has {format_product(other_probabilities)}, which is more; beam search finds it: "
        "`regard explain beam`.",
    )


def explain_greedy_on_model(model_input: ModelInput) -> Explanation:
    setup = DecodeSetup.of_model(model_input, beam=1)
    [[hypothesis]] = decode(setup.model, setup.batch, setup.config, [setup.prefix])
    all_log_probs, log_probs = setup.score_stepwise(hypothesis.ids)
    ids, log_prob = [*hypothesis.ids, EOS], log_probs.sum()
    n_hidden = len(ids) - len(setup.prefix) - MAX_STEPS
    end_was_forced = int(all_log_probs[-1].argmax()) != EOS
    return Explanation(
        f"Greedy search in the model: {model_input.short_text}",
        (
            *_choice_steps(setup, ids, all_log_probs),
            step(
                "The log-probabilities of all tokens, added up. For comparison they are also computed in one pass over "
                "the whole sentence.",
                _LOG_SUM,
                matrix("log P", log_prob),
                max_difference(
                    log_probs, setup.score_at_once(hypothesis.ids), "largest difference from the model's own run"
                ),
            ),
        ),
        f"Greedy search generates “{model_input.pipeline.decode_target(hypothesis.ids)}” with log P = "
        f"{format_number(float(log_prob))}.",
        (
            *((f"{n_hidden} more steps are not shown.",) if n_hidden > 0 else ()),
            *(("The end was forced, because the output had reached its maximum length.",) if end_was_forced else ()),
        ),
    )


def _choice_steps(setup: DecodeSetup, ids: list[int], log_probs: Tensor) -> list[Step]:
    """Show the most likely tokens at each step after the prefix, and the one that was chosen."""
    steps, start = [], len(setup.prefix)
    for t in range(start, len(ids))[:MAX_STEPS]:
        p = log_probs[t].exp()
        top = p.topk(min(_N_SHOWN, int((p > 0).sum()))).indices.tolist()
        rows = [(setup.format_token(i), float(p[i]), "chosen" if i == ids[t] else "") for i in top]
        where = f"after “{setup.format_hypothesis(ids[:t])}”" if t else "at the start"
        formula = _CHOICE if t == start else None
        most_likely = table("most likely", ("token", "P", ""), rows)
        steps.append(step(f"Step {t + 1 - start}, {where}.", formula, most_likely))
    return steps
