"""Stages: numpy computes the output of every stage from its inputs and weights, for every model and every block."""

from itertools import pairwise
from typing import get_args

import numpy as np
import pytest
import torch

from regard import models
from regard.data.batch import Batch
from regard.errors import UserError
from regard.models.describe import describe
from regard.models.intervention import Intervention
from regard.models.stages.calls import borrowed_copy
from regard.models.stages.record import record_block
from regard.models.stages.stage import BlockRecord, Op
from regard.pipelines.encoded_input import EncodedInput
from tests.conftest import VOCAB
from tests.models.configs import ALL, ENCODERS, SEQ2SEQ, STACK, Options, build
from tests.models.stage_arithmetic import OPS, recompute

TARGET = (11, 12, 13, 3)
SOURCE = EncodedInput(torch.tensor([[7, 8, 9, 10, 3]])).batch(TARGET)
NO_SOURCE = EncodedInput(torch.empty(1, 0, dtype=torch.int64)).batch(TARGET)
HIDDEN = EncodedInput(torch.tensor([[7, 0, 9, 10, 3]])).batch(TARGET)
IMAGE: Options = {"kind": "image", **STACK, "size": 16, "patch": 4}
OTHERS: dict[str, Options] = {
    **{f"labels: {name}": {"kind": "encoder", "head": "label", "encoder": e} for name, e in ENCODERS.items()},
    "labels: attention pooling": {"kind": "encoder", "head": "label", "pooling": "attention"},
    "tokens": {"kind": "encoder", "encoder": {"kind": "transformer", **STACK}},
    "tokens: bert": {
        "kind": "encoder",
        "transform": True,
        "encoder": {"kind": "transformer", **STACK, "norm": "post", "embedding_norm": True, "positions": "learned"},
    },
    "patches": {"kind": "encoder-decoder", "encoder": IMAGE, "decoder": {"kind": "transformer", **STACK}},
    "convolutions": {
        "kind": "encoder-decoder",
        "encoder": {**IMAGE, "stem": "convolutions"},
        "decoder": {"kind": "rnn", "d_model": 16, "attention": "additive"},
    },
    "concatenated positions": {"kind": "transformer", **STACK, "join": "concatenate"},
}
OTHERS["labels: attention pooling"]["encoder"] = {"kind": "transformer", **STACK}


def make_model(name: str) -> tuple[models.Model, Batch]:
    if name in ALL:
        return build(name), SOURCE if name in SEQ2SEQ else NO_SOURCE
    torch.manual_seed(1)
    options = OTHERS[name]
    sizes = (VOCAB, VOCAB) if "label" in str(options) else (VOCAB, None)
    model = models.build(options, *sizes).double().eval()
    for parameter in model.parameters():
        if not parameter.any():  # biases, and the keys of attention pooling, start at zero
            torch.nn.init.normal_(parameter, std=0.3)
    if "image" not in str(options):
        return model, SOURCE
    return model, EncodedInput(torch.rand(1, 3, 16, 16, dtype=torch.float64)).batch(TARGET)


def check(record: BlockRecord) -> None:
    assert record.stages
    for stage in record.stages:
        value = record.values[stage.name]
        assert value.tensor.ndim == len(value.axes), stage
        expected = recompute(record, stage)
        if expected is not None:
            np.testing.assert_allclose(value.tensor.numpy(), expected, rtol=0, atol=1e-9, err_msg=str(stage))


@pytest.mark.parametrize("name", [*ALL, *OTHERS])
def test_every_stage_can_be_recomputed(name: str) -> None:
    model, batch = make_model(name)
    description = describe(model, has_source=batch.src.shape[1] > 0)
    records = {block: record_block(model, batch, block) for block in description.blocks}
    for block, record in records.items():
        check(record)
        rows = {
            part.name
            for stack in description.stacks
            for layer in stack.layers
            if layer.block == block
            for part in layer.parts
        }
        assert rows <= {stage.part for stage in record.stages}, block
    # Blocks fit together: what one returns is what the next one reads.
    for stack in description.stacks:
        names = [stack.embedding.block, *(layer.block for layer in stack.layers)]
        for before, after in pairwise(names):
            last = records[before].values[records[before].stages[-1].name].tensor
            np.testing.assert_allclose(records[after].values["input"].tensor, last, rtol=0, atol=1e-9)
    with torch.inference_mode():
        logits = model(batch)[0]
    np.testing.assert_allclose(records["output"].values["logits"].tensor, logits, rtol=0, atol=1e-9)


def test_all_operations_are_tested() -> None:
    assert set(OPS) | {"given"} == set(get_args(Op))


@pytest.mark.parametrize("name", ["transformer-transformer", "gpt", "transformer: linear attention"])
def test_hidden_tokens_and_heads_that_are_off(name: str) -> None:
    model, kind = build(name), "decoder"
    record = record_block(model, HIDDEN, f"{kind}.0", Intervention.switch_off(model, [(kind, 0, 1)]))
    check(record)
    joined, changed = (record.values[f"self.{name}"].tensor for name in ("joined", "changed"))
    width = joined.shape[1] // 4
    assert not changed[:, width : 2 * width].any() and joined[:, width : 2 * width].any()
    assert record.stages[[s.name for s in record.stages].index("self.out")].inputs == ("self.changed",)


def test_recording_changes_nothing_and_leaves_no_hooks() -> None:
    model = build("transformer-transformer")
    before = model(SOURCE)
    record_block(model, SOURCE, "decoder.0")
    assert torch.equal(model(SOURCE), before)
    assert not any(module._forward_hooks for module in model.modules())
    with borrowed_copy(model) as copied, borrowed_copy(model) as another:
        assert copied is not another and not any(module._forward_hooks for module in copied.modules())
        assert all(own is its for own, its in zip(model.parameters(), copied.parameters(), strict=True))
    model.output.weight = torch.nn.Parameter(2 * model.output.weight)  # not in the copies that were made before
    logits = record_block(model, SOURCE, "output").values["logits"].tensor
    torch.testing.assert_close(logits, model(SOURCE)[0], rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "block", "message"),
    [
        ("transformer-transformer", "middle", "a block is"),
        ("transformer-transformer", "encoder.2", "no layer 2; the encoder has 0 to 1"),
        ("language model: transformer", "encoder.0", "no encoder"),
        ("transformer: marian", "decoder.norm", "no norm"),
        ("rnn-rnn", "decoder.1", "no layer 1"),
    ],
)
def test_blocks_that_do_not_exist_are_refused(name: str, block: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        record_block(build(name), SOURCE if name in SEQ2SEQ else NO_SOURCE, block)
