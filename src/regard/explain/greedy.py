"""Greedy search, step by step: W8."""

from torch import Tensor

from regard.explain.decode_setup import (
    LETTERS,
    MOST_STEPS,
    A,
    B,
    C,
    DecodeSetup,
    LectureTable,
    along,
    nothing,
    product,
    spelt,
)
from regard.explain.explanation import Explanation, Step, difference, listing, matrix, step
from regard.explain.formula import math, of, sub, total
from regard.explain.model_input import ModelInput
from regard.explain.number_format import number
from regard.search.decode import DecodeConfig, decode
from regard.text.vocab import EOS

_LIKELIEST = 5
_NEXT = of("P", math(sub("y", "t"), "|", sub("y", "<t"), ", c"))
_CHOICE = math(sub("y", "t"), "=", sub("argmax", "y"), of("P", math("y |", sub("y", "<t"), ", c")))
_PRODUCT = math(of("P", "y"), "=", sub("Π", "t"), _NEXT)
_LOGS = math(of("log", of("P", "y")), "=", total("t", of("log", _NEXT)))


def greedy() -> Explanation:
    table = DecodeSetup(
        LectureTable(), nothing(), (), DecodeConfig(beam=1, length_penalty=0.0), LETTERS.__getitem__, spelt
    )
    [[found]] = decode(table.model, table.batch, table.config)
    said, other = [*found.ids, EOS], [A, C, B, EOS]
    log_probs, path = along(table.model, table.batch, found.ids)
    first, second = path.exp(), along(table.model, table.batch, other[:-1])[1].exp()
    return Explanation(
        "Greedy search takes the likeliest token each time, and misses a likelier sentence",
        (
            *_choices(table, said, log_probs),
            step("What it said.", _PRODUCT, matrix("greedy", first), matrix("P(greedy)", first.prod())),
            step(
                f"Another way through the same table, “{spelt(other)}”, with C where greedy took B.",
                _PRODUCT,
                matrix("other", second),
                matrix("P(other)", second.prod()),
            ),
        ),
        f"Greedy says “{spelt(said)}” with {product(first)}; “{spelt(other)}” has {product(second)}, which is more. "
        "Beam search finds it: `regard explain beam`.",
    )


def greedy_of_own(own: ModelInput) -> Explanation:
    asked = DecodeSetup.of(own, beam=1)
    [[found]] = decode(asked.model, asked.batch, asked.config, [asked.prefix])
    log_probs, path = along(asked.model, asked.batch, found.ids)
    said = [*found.ids, EOS]
    more = len(said) - len(asked.prefix) - MOST_STEPS
    forced = int(log_probs[-1].argmax()) != EOS
    return Explanation(
        f"Greedy search in the model: {own.quoted_text}",
        (
            *_choices(asked, said, log_probs),
            step(
                "The logarithms of all that it said, added up; and the same from the whole sentence at once.",
                _LOGS,
                matrix("log P", path.sum()),
                difference(path, asked.at_once(found.ids), "largest difference from the model's own run"),
            ),
        ),
        f"Greedy search says “{own.pipeline.decode_target(found.ids)}”, with log P = {number(float(path.sum()))}.",
        (
            *((f"{more} more steps are not shown.",) if more > 0 else ()),
            *(("The end was no choice: there may be no more tokens.",) if forced else ()),
        ),
    )


def _choices(asked: DecodeSetup, said: list[int], log_probs: Tensor) -> list[Step]:
    """Behind the prefix, step by step: the likeliest tokens, and the one that was taken"""
    steps, start = [], len(asked.prefix)
    for t in range(start, len(said))[:MOST_STEPS]:
        p = log_probs[t].exp()
        top = p.topk(min(_LIKELIEST, int((p > 0).sum()))).indices.tolist()
        rows = [(asked.token(i), float(p[i]), "taken" if i == said[t] else "") for i in top]
        where = f"after “{asked.spelt(said[:t])}”" if t else "at the start"
        formula = _CHOICE if t == start else None
        steps.append(step(f"Step {t + 1 - start}, {where}.", formula, listing("likeliest", ("token", "P", ""), rows)))
    return steps
