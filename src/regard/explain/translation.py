"""The lecture's translation, in which the adjective moves after its noun: W10."""

from collections.abc import Sequence

import numpy as np

from regard.alignment.from_attention import Aligner
from regard.data.builtin.grammar_corpus import green_witch
from regard.errors import UserError
from regard.explain.explanation import Explanation, GridPlot, matrix, step, table
from regard.explain.formula import expr, sub
from regard.explain.model_input import ModelInput, unique_labels

_SIDES = ("source", "target")


def explain_translation() -> Explanation:
    pair = green_witch()
    source, target = pair.src.split(), pair.tgt.split()
    gold = np.zeros((len(target), len(source)), dtype=int)
    for i, j in pair.alignment:
        gold[j, i] = 1
    return Explanation(
        f"“{pair.src}” in French",
        (
            step(
                "A sentence pair of the built-in grammar.",
                table("language", ("sentence",), [(pair.src,), (pair.tgt,)], ("English", "French")),
            ),
            step("Which word translates which.", matrix("gold", gold, target, source)),
        ),
        _describe_swap(pair.alignment, source, target),
        (
            "This alignment comes from the grammar. To see how a model aligns the words, train one with `regard demo` "
            "and run `regard explain translation --model runs/demo-en-fr`.",
        ),
        GridPlot(gold.astype(float), "English", "French", tuple(target), tuple(source)),
    )


def explain_translation_on_model(model_input: ModelInput) -> Explanation:
    pipeline, text = model_input.pipeline, model_input.text or green_witch().src
    if pipeline.noun != "translator":
        raise UserError("this model does not translate; give --model the directory of a translator")
    encoded = pipeline.encode(text)
    target_ids = pipeline.target_ids(encoded, model_input.target)
    _, record = pipeline.trace(encoded, target_ids)
    translation = pipeline.output_text(text, target_ids)
    if not record.cross.size:
        raise UserError("this model has no cross attention")
    if not translation:
        raise UserError("the model returned an empty translation; try another sentence")
    with_specials, words = record.mean().merge_words(specials=True), record.mean().merge_words()
    source, target = unique_labels(with_specials.source_tokens), unique_labels(with_specials.target_tokens)
    links = sorted(Aligner().word_links(record), key=lambda link: link[1])
    n_layers, n_heads = record.cross.shape[:2]
    tokens = [(" ".join(tokens[:-1]),) for tokens in (record.source_tokens, record.target_tokens)]  # without EOS
    return Explanation(
        f"“{text}” translated by the model",
        (
            step("The source and the translation as tokens.", table("pieces", ("tokens",), tokens, _SIDES)),
            step(
                f"Where each target word attends: cross-attention, the mean of {n_layers} layers and {n_heads} heads.",
                matrix("weights", with_specials.cross[0, 0], target, source),
            ),
            step(
                "The source word with the largest weight, for each target word.",
                expr(sub("a", "t"), "=", sub("argmax", "s"), sub("α", "t s")),
                table(
                    "target word", ("source word",), [(words.source_tokens[i],) for i, _ in links], words.target_tokens
                ),
            ),
        ),
        f"“{translation}”. {_describe_swap(links, words.source_tokens, words.target_tokens)}",
        ("Attention shows where the model reads, not why it chooses its words.",),
        GridPlot(with_specials.cross[0, 0], *_SIDES, target, source),
    )


def _describe_swap(links: Sequence[tuple[int, int]], source: Sequence[str], target: Sequence[str]) -> str:
    """Name the first two neighbouring source words whose translations are in reverse order."""
    targets_of = {i: [j for other, j in links if other == i] for i, _ in links}
    for i in sorted(targets_of):
        if i + 1 in targets_of and min(targets_of[i]) > max(targets_of[i + 1]):
            first, second = target[targets_of[i + 1][0]], target[targets_of[i][0]]
            return f"“{source[i]} {source[i + 1]}” becomes “{first} {second}”: the two words change places."
    return "No two neighbouring words change places."
