"""Stages of the output: pooling or transform, readout, logits and log-probabilities."""

from typing import cast

from torch import nn

from regard.models import Model
from regard.models.describe import activation_name
from regard.models.encoder_only import EncoderOnly
from regard.models.protocols import Memory
from regard.models.rnn import RnnEncoder
from regard.models.stages.attention import score_stage, weights_stages
from regard.models.stages.calls import ModuleCalls
from regard.models.stages.stage import BlockRecord
from regard.nn.attention import AttentionTrace
from regard.nn.scores import ScaledDot


def output_stages(record: BlockRecord, calls: ModuleCalls, model: Model) -> str:
    """Add the stages from the vectors of the last stack to log-probabilities; `calls` are those of `forward`."""
    if isinstance(model, EncoderOnly):
        x = _label_vector(record, calls, model) if model.predicts_label else _transform(record, calls, model)
    else:
        x = record.given("input", calls.input(model.readout), record.rows, "width")
        if isinstance(model.readout, nn.Linear):
            x = record.linear("readout", x, calls.output(model.readout), model.readout.weight, model.readout.bias)
    logits = calls.output(model.output)
    logits = logits if logits.ndim > 1 else logits[None]  # one row for the whole text
    name = record.linear("logits", x, logits, model.output.weight, model.output.bias, "vocabulary")
    axes = record.values[name].axes
    return record.stage("log_probs", "log-softmax", (name,), logits.double().log_softmax(-1).to(logits.dtype), axes)


def _transform(record: BlockRecord, calls: ModuleCalls, model: EncoderOnly) -> str:
    memory = cast(Memory, calls.last(cast(nn.Module, model.encoder)).output)
    x = record.given("input", memory.values[0], record.rows, "width")
    if model.transform is None:
        return x
    linear, activation, norm = model.transform.children()
    assert isinstance(linear, nn.Linear)
    x = record.linear("transform.linear", x, calls.output(linear), linear.weight, linear.bias)
    name = activation_name(activation)
    x = record.stage("transform.activation", "activation", (x,), calls.output(activation), activation=name)
    return record.norm("transform.norm", x, calls.output(norm), norm)


def _label_vector(record: BlockRecord, calls: ModuleCalls, model: EncoderOnly) -> str:
    """Add what makes one vector of all token vectors."""
    memory = cast(Memory, calls.last(cast(nn.Module, model.encoder)).output)
    values = record.given("input", memory.values[0], "source", "width")
    mask = record.given("mask", memory.mask[0], "source")
    if model.pooling is None:
        summary = memory.summary[:1]
        if isinstance(model.encoder, RnnEncoder):
            both = int(model.encoder.bidirectional)
            return record.stage("pooled", "last-states", (values, mask), summary, bidirectional=both)
        return record.stage("pooled", "mean", (values, mask), summary)
    trace = AttentionTrace(*(tensor[0] for tensor in calls.last(model.pooling).output))
    query = record.given("cross.query", trace.q, "text", "width")
    key = record.linear("cross.key", values, trace.k, model.pooling.key, None)
    scores = score_stage(record, "cross", model.pooling.score_name, ScaledDot(), trace.scores, query, key)
    return weights_stages(record, "cross", trace, scores, values, model.pooling.normalise)
