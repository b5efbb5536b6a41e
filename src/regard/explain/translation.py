"""The lecture's translation: the adjective moves behind its noun (W10)."""

from collections.abc import Sequence

import numpy as np

from regard.alignment.aligner import Aligner
from regard.data.builtin.grammar_corpus import green_witch
from regard.errors import UserError
from regard.explain.explanation import Explanation, GridPlot, listing, matrix, step
from regard.explain.formula import math, sub
from regard.explain.model_input import ModelInput, unique_labels
from regard.pipelines.translator import Translator


def translation() -> Explanation:
    pair = green_witch()
    source, target = pair.src.split(), pair.tgt.split()
    gold = np.zeros((len(target), len(source)), dtype=int)
    for i, j in pair.alignment:
        gold[j, i] = 1
    return Explanation(
        f"“{pair.src}” in French",
        (
            step(
                "The pair, as the built-in grammar has it.",
                None,
                listing("language", ("sentence",), [(pair.src,), (pair.tgt,)], ("English", "French")),
            ),
            step("Which word renders which.", None, matrix("gold", gold, target, source)),
        ),
        _crossing(pair.alignment, source, target),
        (
            "This is the grammar's own alignment. To see a model find it: `regard demo` trains one, then "
            "`regard explain translation --model runs/demo-en-fr`.",
        ),
        GridPlot(gold.astype(float), "English", "French", tuple(target), tuple(source)),
    )


def translation_of_own(own: ModelInput) -> Explanation:
    if not isinstance(own.pipeline, Translator):
        raise UserError("this model does not translate; give --model the directory of a translator")
    [found] = own.pipeline.translate([own.text or green_witch().src], attention=True)
    record = found.attention
    if record is None or not record.cross.size:
        raise UserError("this model has no cross attention to look at")
    if not found.text:
        raise UserError("the model's translation is empty; there is nothing to look at")
    every, plain = record.mean().merge_words(specials=True), record.mean().merge_words()
    source, target = unique_labels(every.source_tokens), unique_labels(every.target_tokens)
    links = sorted(Aligner()(record), key=lambda link: link[1])
    layers, heads = record.cross.shape[:2]
    pieces = listing("pieces", ("tokens",), [(" ".join(found.source_tokens),), (" ".join(found.tokens),)], _SIDES)
    aligned = [(plain.source_tokens[i],) for i, _ in links]
    return Explanation(
        f"“{found.source}” by the model",
        (
            step("What the model reads and says, in pieces.", None, pieces),
            step(
                f"Where each target word looks: cross-attention, a mean over {layers} layers and {heads} heads.",
                None,
                matrix("weights", every.cross[0, 0], target, source),
            ),
            step(
                "The source word with most of each target word's attention.",
                math(sub("a", "t"), "=", sub("argmax", "s"), sub("α", "t s")),
                listing("target word", ("source word",), aligned, plain.target_tokens),
            ),
        ),
        f"“{found.text}”. {_crossing(links, plain.source_tokens, plain.target_tokens)}",
        ("Attention says where the model looked, not why it chose its words.",),
        GridPlot(every.cross[0, 0], "source", "target", target, source),
    )


_SIDES = ("source", "target")


def _crossing(links: Sequence[tuple[int, int]], source: Sequence[str], target: Sequence[str]) -> str:
    """Neighbouring source words whose renderings change places"""
    of = {i: [j for a, j in links if a == i] for i, _ in links}
    for i in sorted(of):
        if i + 1 in of and min(of[i]) > max(of[i + 1]):
            first, second = target[of[i + 1][0]], target[of[i][0]]
            return f"“{source[i]} {source[i + 1]}” becomes “{first} {second}”: the two have changed places."
    return "No two neighbouring words change places."
