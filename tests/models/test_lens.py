"""The logit lens: its last row is the model's own prediction, in every model."""

import pytest
import torch

from regard.models.lens import lens_rows
from tests.models.configs import ALL
from tests.models.test_stages import OTHERS, make_model


@pytest.mark.parametrize("name", [*ALL, *OTHERS])
def test_the_last_row_is_the_prediction(name: str) -> None:
    model, batch = make_model(name)
    with torch.inference_mode():
        p = model(batch)[0].softmax(-1)
    tokens = p.argmin(-1)
    tokens[0] = -1
    rows = lens_rows(model, batch, tokens, k=3)
    best = p.topk(3, dim=-1)
    torch.testing.assert_close(rows[-1].top_probs, best.values, rtol=0, atol=1e-9)
    assert torch.equal(rows[-1].top_ids, best.indices)
    if len(tokens) > 1:
        torch.testing.assert_close(rows[-1].probs[1:], p.amin(-1)[1:], rtol=0, atol=1e-9)
        assert (rows[-1].ranks[1:] == p.shape[-1]).all()
    assert rows[-1].ranks[0] == 0 and rows[-1].probs[0].isnan()


def test_there_is_a_row_after_each_part() -> None:
    model, batch = make_model("transformer-transformer")
    rows = lens_rows(model, batch, torch.tensor([-1] * 4))
    parts = [(f"decoder.{layer}", part) for layer in range(2) for part in ("self", "cross", "feedforward")]
    assert [(row.block, row.part) for row in rows] == [("decoder.embedding", ""), *parts]
    model, batch = make_model("labels: ssm")
    rows = lens_rows(model, batch, torch.tensor([-1]))
    assert [row.part for row in rows] == ["", "state-space", "feedforward", "state-space", "feedforward"]
