"""One step of the RNN translator, from encoder states to −log p of the reference word (P20; S1, S2, S3)."""

from typing import NamedTuple

import torch
from torch import Tensor

from regard.errors import UserError
from regard.explain.explanation import Explanation, GridPlot, Step, column_numbers, matrix, max_difference, step, table
from regard.explain.formula import SOFTMAX, Formula, apply, expr, sub
from regard.explain.model_input import ModelInput, unique_labels
from regard.explain.number_format import format_number
from regard.explain.score_steps import (
    INPUT_EQUATIONS,
    JOINED_INPUT,
    NEXT_STATE,
    NEXT_STATE_FROM_JOINED,
    NORMALISATIONS,
    OUTPUT_EQUATIONS,
    score_step,
)
from regard.models.protocols import Memory
from regard.models.rnn import RnnDecoder
from regard.nn.attention import AttentionTrace, attend, attend_traced

_SOURCE, _TARGET = ("the", "green", "witch", "arrived"), ("la", "sorcière", "verte", "est", "arrivée", "</s>")
_ENCODER_STATES = ((0, -1), (-1, 1), (2, 1), (1, -1))
_STATE = (1, 1)
_OUTPUT_WEIGHTS = ((0, -1, 0, 0), (2, 1, 0, 0), (-1, 1, 1, 1), (1, -1, 0, 0), (1, -1, -1, 0), (-1, -1, 0, 0))
_READ, _REFERENCE = "la", "sorcière"
_N_BEST = 5  # words of a model's prediction that are shown

_DOT_SCORES = expr(sub("e", "j"), "=", sub("h", "t"), "·", sub("h", "j"))
_CONTEXT = expr(sub("c", "t"), "=", sub("Σ", "j"), sub("α", "j"), sub("h", "j"))
_JOINED = expr("[", sub("c", "t"), ";", sub("h", "t"), "]")
_LOSS = expr(sub("L", "t"), "= −", apply("log", apply("p", sub("y", "t"))))
_FIRST_STATE = expr(sub("h", "0"), "=", apply("tanh", "W c + b"))


def explain_seq2seq_step() -> Explanation:
    states, h, w = (
        torch.tensor(values, dtype=torch.float64) for values in (_ENCODER_STATES, [_STATE], _OUTPUT_WEIGHTS)
    )
    trace = attend_traced(h, states, states, "dot")
    context = trace.output
    joined = torch.cat([context, h], 1)
    logits = joined @ w.T
    p = logits.softmax(-1)[0]
    true_p = p[_TARGET.index(_REFERENCE)]
    return Explanation(
        "One step of the RNN translator: the word after “la”",
        (
            step(
                "The encoder has read the source: one state per word. They are the keys and the values.",
                matrix("H", states, _SOURCE, ("1", "2")),
            ),
            step(
                f"Teacher forcing: the decoder reads the reference's word “{_READ}”, and its state becomes hₜ. This "
                "is the query.",
                NEXT_STATE,
                matrix("hₜ", h),
            ),
            step("The score of each source word.", _DOT_SCORES, matrix("e", trace.scores, (), _SOURCE)),
            step("Softmax turns the scores into weights.", SOFTMAX, matrix("α", trace.weights, (), _SOURCE)),
            step(
                "The context vector: the weighted sum of the encoder's states.",
                _CONTEXT,
                matrix("cₜ", context),
                max_difference(attend(h, states, states, "dot")[0], trace.weights @ states),
            ),
            step("Context and state side by side.", _JOINED, matrix("[c ; h]", joined)),
            step(
                "The output layer gives a number for each word of the vocabulary; softmax turns them into "
                "probabilities. The largest is ŷ.",
                OUTPUT_EQUATIONS.use,
                matrix("W", w, _TARGET),
                matrix("W [c ; h]", logits, (), _TARGET),
                matrix("p", p, (), _TARGET),
            ),
            step(
                f"The loss of this step: −log of the probability of the reference's word, “{_REFERENCE}”.",
                _LOSS,
                matrix("p(reference)", true_p),
                matrix("−log p", -true_p.log()),
            ),
        ),
        f"The decoder attends to “witch” with {format_number(float(trace.weights.max()))} and predicts "
        f"“{_TARGET[int(p.argmax())]}” with p = {format_number(float(true_p))}, so the loss of this step is "
        f"{format_number(float(-true_p.log()))}. The loss of the sentence is the sum over its words "
        "(`regard explain nll`).",
        (
            "All numbers are chosen here; with `--model` they are those of a trained RNN. `regard demo --recipe "
            "rnn-dot` trains one.",
            f"Where the context is an input of the RNN instead (Purdue), the equations are: "
            f"{INPUT_EQUATIONS.query.text}; then {JOINED_INPUT.text} and {NEXT_STATE_FROM_JOINED.text}.",
        ),
        GridPlot(trace.weights.numpy(), "source", "target", (_REFERENCE,), _SOURCE),
    )


class _Prediction(NamedTuple):
    """One step of a decoder: how it got there, and what it predicts from."""

    steps: list[Step]
    features: Tensor
    """What the output layer reads [1, 1, D]"""
    trace: AttentionTrace | None


@torch.no_grad()
def explain_seq2seq_step_on_model(model_input: ModelInput) -> Explanation:
    model, decoder = model_input.model, _rnn_decoder(model_input)
    batch, t = model_input.batch, model_input.step
    words = model_input.target_labels
    if t >= len(words):
        raise UserError(f"there is no step {t}; this sentence has 0 to {len(words) - 1}")
    memory = model.encoder(batch.src) if hasattr(model, "encoder") else None
    prediction = _predict(model_input, decoder, memory)
    logits = model.output(model.readout(prediction.features))[0, 0].double()
    log_p, own = logits.log_softmax(-1), model(batch)[0].double().log_softmax(-1)
    of_reference = own.gather(1, batch.tgt_out[0][:, None]).squeeze(1)
    true_log_p = log_p[batch.tgt_out[0, t]]
    best = log_p.argsort(descending=True)[:_N_BEST]
    best_words = tuple(model_input.output_label(int(i)) for i in best)
    return Explanation(
        f"Step {t} of the model, “{words[t]}”: {model_input.short_text}",
        (
            *_source_steps(model_input, memory, prediction.trace),
            *prediction.steps,
            step(
                f"The probabilities of the next word; the {len(best)} most likely of {len(log_p):,}.",
                OUTPUT_EQUATIONS.use if prediction.trace and decoder.join is None else None,
                matrix("p", log_p[best].exp(), (), best_words),
                max_difference(log_p, own[t], "largest difference from the model's own log-probabilities"),
            ),
            step(
                f"The loss of this step: −log of the probability of the reference's word, “{words[t]}”.",
                _LOSS,
                matrix("p(reference)", true_log_p.exp()),
                matrix("−log p", -true_log_p),
            ),
            step(
                "All steps, teacher forced.",
                table("token", ("p", "−log p"), [(float(x.exp()), float(-x)) for x in of_reference], words),
                matrix("sum of −log p", -of_reference.sum()),
            ),
        ),
        f"{_describe_attention(model_input, prediction.trace)}It predicts “{best_words[0]}” with "
        f"{format_number(float(log_p[best[0]].exp()))}; the reference is “{words[t]}”. The sum over the sentence is "
        f"{format_number(float(-of_reference.sum()))}. `--step` selects another word, `--target` another "
        "reference.",
        plot=_weights_plot(model_input, prediction.trace),
    )


def _rnn_decoder(model_input: ModelInput) -> RnnDecoder:
    decoder = getattr(model_input.model, "decoder", None)
    if not isinstance(decoder, RnnDecoder):
        raise UserError(
            "this model has no RNN decoder; `regard explain block` works through a Transformer, "
            "`regard explain nll` through its loss"
        )
    return decoder


def _source_steps(model_input: ModelInput, memory: Memory | None, trace: AttentionTrace | None) -> list[Step]:
    """Show what the decoder knows of the source: all states of the encoder, or one vector."""
    if memory is None:
        return []
    if trace is None:
        text = "The encoder has read the source. Without attention, one vector is all that the decoder gets of it."
        return [step(text, matrix("c", memory.summary), matrix("h₀", _first_state(model_input, memory)))]
    states = memory.values[0]
    return [
        step(
            "The encoder has read the source: one state per token. They are the keys and the values.",
            matrix("H", states, _source_labels(model_input), column_numbers(states)),
        )
    ]


def _predict(model_input: ModelInput, decoder: RnnDecoder, memory: Memory | None) -> _Prediction:
    """Read the words before the chosen step, then work through that step with the decoder's own parts."""
    ids, t = model_input.batch.tgt_in[0], model_input.step
    state = decoder.start(memory, 1)
    for token in ids[:t]:
        _, state = decoder.step(state, token[None])
    x, before = decoder.tokens(ids[None, t : t + 1]), state.rnn.h[:, -1:]
    source = "by which the source enters the decoder" if memory is not None else "zeros"
    read = step(
        f"Teacher forcing: the decoder reads “{model_input.read_labels[t]}”, whose embedding is xₜ. "
        + (f"Its state is h₀, {source}." if t == 0 else "hₜ₋₁ is its state so far."),
        _FIRST_STATE if t == 0 and memory is not None else None,
        matrix("xₜ", x[0]),
        matrix("hₜ₋₁", before[0]),
    )
    if decoder.attention is None or memory is None:
        h, _ = decoder.rnn(x, state.rnn)
        return _Prediction([read, _state_step(decoder, NEXT_STATE, h)], h, None)
    if decoder.join is None:
        h, _ = decoder.rnn(x, state.rnn)
        trace = decoder.attention(h, memory, t)
        features = torch.cat([trace.output, h], -1)
        steps = [_state_step(decoder, NEXT_STATE, h), *_attention_steps(model_input, decoder, trace)]
        return _Prediction([read, *steps, _join_step(features)], features, trace)
    q = torch.cat([before, x], -1)
    trace = decoder.attention(q, memory, t)
    z = decoder.join(torch.cat([x, trace.output], -1)).relu()
    h, _ = decoder.rnn(z, state.rnn)
    query = step("The query: the state so far and the word, side by side.", INPUT_EQUATIONS.query, matrix("q", q[0]))
    joined = step("The word and the context become the input of the RNN.", JOINED_INPUT, matrix("z", z[0]))
    steps = [query, *_attention_steps(model_input, decoder, trace), joined]
    return _Prediction([read, *steps, _state_step(decoder, NEXT_STATE_FROM_JOINED, h)], h, trace)


def _first_state(model_input: ModelInput, memory: Memory) -> Tensor:
    """The decoder's state before the first word, of its last layer [1, D]"""
    return model_input.model.decoder.start(memory, 1).rnn.h[:, -1]


def _state_step(decoder: RnnDecoder, formula: Formula, h: Tensor) -> Step:
    cell = {"gru": "GRU", "lstm": "LSTM"}.get(decoder.config.cell, "RNN")
    return step(f"The {cell} computes the new state.", formula, matrix("hₜ", h[0]))


def _join_step(features: Tensor) -> Step:
    return step("Context and state side by side.", _JOINED, matrix("[c ; h]", features[0]))


def _attention_steps(model_input: ModelInput, decoder: RnnDecoder, trace: AttentionTrace) -> list[Step]:
    """Show the scores, weights and context of one query; trace [1, 1, …]."""
    module, source = decoder.attention, _source_labels(model_input)
    assert module is not None
    own = model_input.traces.cross[0].weights[0, 0, model_input.step]
    return [
        score_step(module, matrix("e", trace.scores[0], (), source)),
        step(
            *NORMALISATIONS[module.normalise],
            matrix("α", trace.weights[0], (), source),
            max_difference(trace.weights[0, 0], own, "largest difference from the model's own weights"),
        ),
        step("The context vector: the weighted sum of the encoder's states.", _CONTEXT, matrix("cₜ", trace.output[0])),
    ]


def _source_labels(model_input: ModelInput) -> tuple[str, ...]:
    return unique_labels(model_input.record.source_tokens)


def _describe_attention(model_input: ModelInput, trace: AttentionTrace | None) -> str:
    if trace is None:
        return "The model has no attention: the source is known through the state only. "
    weights, source = trace.weights[0, 0], _source_labels(model_input)
    best = int(weights.argmax())
    return f"The model attends most to “{source[best]}” ({format_number(float(weights[best]))}). "


def _weights_plot(model_input: ModelInput, trace: AttentionTrace | None) -> GridPlot | None:
    if trace is None:
        return None
    rows = (model_input.target_labels[model_input.step],)
    return GridPlot(trace.weights[0].numpy(), "source", "target", rows, _source_labels(model_input))
