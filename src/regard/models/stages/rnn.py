"""Stages of recurrent encoders and decoders: layers, initial state, and attention to the encoder's states."""

import torch
from torch import Tensor, nn

from regard.models.rnn import RnnAttention, RnnDecoder
from regard.models.stages.attention import score_stage, weights_stages
from regard.models.stages.calls import ModuleCalls
from regard.models.stages.recurrence import recurrent_stages
from regard.models.stages.stage import BlockRecord
from regard.nn.attention import AttentionTrace
from regard.nn.recurrent import BidirectionalLayer, ForwardLayer, Recurrent


def encoder_layer_stages(record: BlockRecord, calls: ModuleCalls, layer: nn.Module) -> str:
    assert isinstance(layer, BidirectionalLayer | ForwardLayer)
    x = record.given("input", calls.input(layer), record.rows, "width")
    part = "recurrence"
    if isinstance(layer, ForwardLayer):
        return _direction(record, calls, part, layer.left_to_right, x)
    forward = _direction(record, calls, f"{part}.forward", layer.left_to_right, x)
    reversed_ = record.stage(f"{part}.reversed", "reverse", (x,), calls.input(layer.right_to_left))
    states = _direction(record, calls, f"{part}.backward", layer.right_to_left, reversed_)
    backward = record.stage(f"{part}.unreversed", "reverse", (states,), record.values[states].tensor.flip(0))
    return record.stage(f"{part}.both", "concatenate", (forward, backward), calls.output(layer))


def _direction(record: BlockRecord, calls: ModuleCalls, part: str, layer: Recurrent, x: str) -> str:
    return recurrent_stages(record, part, layer.rnn, 0, x, None, calls.last(layer).output[0][0])


def decoder_layer_stages(record: BlockRecord, calls: ModuleCalls, decoder: RnnDecoder, index: int) -> str:
    """The lower layers are computed again up to this one, because torch returns the states of the last one only."""
    n_layers, part = decoder.config.n_layers, "recurrence"
    embedded = decoder.tokens.weight[calls.input(decoder)]
    starts = _initial_states(calls, decoder, embedded)
    own = torch.cat([call.output[0] for call in calls.all(decoder.rnn)], dim=1)[0]
    x_in = embedded if decoder.join is None or decoder.attention is None else calls.output(decoder.join).relu()
    if index == 0:
        x = record.given("input", embedded, record.rows, "width")
        if decoder.join is not None and decoder.attention is not None:
            x = _context_to_input(record, calls, decoder, x, starts[-1], own)
    else:
        x = record.given("input", _lower_states(decoder, x_in, starts, index), record.rows, "width")
    start = _initial_stage(record, calls, decoder, index)
    states = own if index == n_layers - 1 else None
    h = recurrent_stages(record, part, decoder.rnn.rnn, index, x, start, states)
    if index < n_layers - 1 or decoder.attention is None or decoder.join is not None:
        return h
    context = _attention(record, calls, decoder.attention, h)
    return record.stage("cross.output", "concatenate", (context, h), calls.last(decoder).output.hidden[0])


def _initial_states(calls: ModuleCalls, decoder: RnnDecoder, like: Tensor) -> Tensor:
    """[layers, D]"""
    n, d = decoder.config.n_layers, decoder.config.d_model
    if decoder.initial_state is None or not calls.has(decoder.initial_state):
        return like.new_zeros(n, d)
    return calls.output(decoder.initial_state).tanh().unflatten(-1, (n, d))


def _initial_stage(record: BlockRecord, calls: ModuleCalls, decoder: RnnDecoder, index: int) -> str | None:
    """Add the state before the first token: tanh(W summary + b), the rows of W that belong to this layer."""
    if decoder.initial_state is None or not calls.has(decoder.initial_state):
        return None
    rows = slice(index * decoder.config.d_model, (index + 1) * decoder.config.d_model)
    summary = record.given("initial.summary", calls.input(decoder.initial_state), "width")
    product = calls.output(decoder.initial_state)[rows]
    weight, bias = decoder.initial_state.weight[rows], decoder.initial_state.bias[rows]
    name = record.linear("initial.linear", summary, product, weight, bias)
    return record.stage("initial.state", "activation", (name,), product.tanh(), ("width",), activation="tanh")


def _lower_states(decoder: RnnDecoder, x: Tensor, starts: Tensor, index: int) -> Tensor:
    for layer in range(index):
        scratch = BlockRecord("", "rows")
        scratch.given("x", x, "rows", "width")
        scratch.given("start", starts[layer], "width")
        name = recurrent_stages(scratch, "layer", decoder.rnn.rnn, layer, "x", "start", None)
        x = scratch.values[name].tensor
    return x


def _context_to_input(
    record: BlockRecord, calls: ModuleCalls, decoder: RnnDecoder, x: str, start: Tensor, states: Tensor
) -> str:
    """q = [h_{t−1} ; x_t], context, z = ReLU(W [x ; c] + b)"""
    assert decoder.join is not None and decoder.attention is not None
    before = torch.cat([start[None], states[:-1]])
    previous = record.given("cross.previous", before, record.rows, "width")
    query = record.stage("cross.query", "concatenate", (previous, x), calls.input(decoder.attention))
    context = _attention(record, calls, decoder.attention, query)
    both = record.stage("cross.pair", "concatenate", (x, context), calls.input(decoder.join))
    product = calls.output(decoder.join)
    z = record.linear("cross.join", both, product, decoder.join.weight, decoder.join.bias)
    return record.stage("cross.output", "activation", (z,), product.relu(), activation="relu")


def _attention(record: BlockRecord, calls: ModuleCalls, attention: RnnAttention, query: str) -> str:
    trace = _trace(calls, attention)
    memory = record.given("memory", trace.v, "source", "width", part="cross")
    if attention.over_all_positions:
        scores = score_stage(record, "cross", "location-log-softmax", attention.score, trace.scores, query, memory)
    elif attention.local is not None and attention.normalise == "exp":
        scores = _local_scores(record, calls, attention, trace, query, memory)
    else:
        plain = calls.output(attention.score)
        scores = score_stage(record, "cross", attention.score_name, attention.score, plain, query, memory)
    return weights_stages(record, "cross", trace, scores, memory, attention.normalise)


def _local_scores(
    record: BlockRecord, calls: ModuleCalls, attention: RnnAttention, trace: AttentionTrace, query: str, memory: str
) -> str:
    """Scores of predictive local attention: log softmax over the window, and a Gaussian around the centre"""
    local = attention.local
    assert local is not None and local.predict is not None
    first, _, last = local.predict.children()
    assert isinstance(first, nn.Linear) and isinstance(last, nn.Linear)
    n = len(trace.v)
    predicted = calls.output(local.predict)
    scores = score_stage(
        record, "cross", attention.score_name, attention.score, calls.output(attention.score), query, memory
    )
    weights = {"weight": (first.weight, ("width", "width")), "out": (last.weight, ("one", "width"))}
    centre = (n - 1) * predicted.sigmoid()
    record.stage("cross.centre", "local-centre", (query,), centre, (record.rows, "one"), weights, length=n)
    window = record.given("cross.window", trace.mask, *record.values[scores].axes)
    parts = (scores, "cross.centre", window)
    axes = record.values[scores].axes
    return record.stage("cross.local", "local-log-weights", parts, trace.scores, axes, reach=local.reach)


def _trace(calls: ModuleCalls, attention: RnnAttention) -> AttentionTrace:
    """The traces of all steps as one"""
    traces: list[AttentionTrace] = [call.output for call in calls.all(attention)]
    first = traces[0]
    q, scores, mask, weights = (
        torch.cat([getattr(trace, name) for trace in traces], dim=1)[0] for name in ("q", "scores", "mask", "weights")
    )
    return AttentionTrace(q, first.k[0], first.v[0], scores, mask, weights)
