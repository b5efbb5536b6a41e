"""The claim of the lab `gradients`: gradients vanish with the distance without attention, but not with it."""

import pytest
import torch
from torch import Tensor, nn

from regard.labs.gradients import DISTANCES, NEAR, SPAN, TRAINED, UNTRAINED, WITH, WITHOUT, answer, measure_gradients
from regard.labs.letter_task import LetterTask, build_model
from regard.labs.result import ResultTable
from regard.labs.training import heldout_seed


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_over_20_steps_gradients_fall_more_than_tenfold_exactly_without_attention(seed: int) -> None:
    near, far = DISTANCES.index(NEAR), DISTANCES.index(NEAR + SPAN)
    for name, options in (WITHOUT | WITH).items():
        norms, _ = measure_gradients(build_model(options, seed).eval(), 10, seed)
        assert (norms[near] / norms[far] > 10) == (name in WITHOUT), name


def test_norms_agree_with_finite_differences() -> None:
    part = {"kind": "rnn", "cell": "rnn", "d_model": 6, "dropout": 0.0}
    options = {"kind": "encoder-decoder", "encoder": part | {"bidirectional": False}, "decoder": part}
    model = build_model(options, 1).eval().double()
    norms, correct = measure_gradients(model, 1, seed=4)
    assert len(norms) == len(correct) == len(DISTANCES)
    batch = LetterTask("reverse", (16, 16)).batch(1, heldout_seed(4))
    step = 1e-5

    def logit(t: int, shift: Tensor) -> float:
        """The logit of output letter t after a shift of the source letter that it copies"""
        calls = []

        def add_shift(_: nn.Module, __: tuple[Tensor, ...], vectors: Tensor) -> Tensor | None:
            calls.append(vectors)
            copied = torch.arange(vectors.shape[1])[:, None] == 15 - t
            return vectors + copied * shift if len(calls) == 1 else None

        hook = model.encoder.tokens.register_forward_hook(add_shift)
        with torch.no_grad():
            value = float(model(batch)[0, t, batch.tgt_out[0, t]])
        hook.remove()
        return value

    for t in (0, 3):
        slopes = [(logit(t, step * e) - logit(t, -step * e)) / (2 * step) for e in torch.eye(6).double()]
        assert norms[t] == pytest.approx(float(torch.tensor(slopes).norm()), rel=1e-4)


@pytest.mark.parametrize(
    ("fall", "expected", "absent"),
    [
        ((1000.0, 2.0), ("letters and vanishes",), ("in this run",)),
        ((5.0, 12.0), ("does not always vanish in this run", "not always less than 10"), ("and vanishes",)),
    ],
)
def test_the_answer_follows_the_numbers(
    fall: tuple[float, float], expected: tuple[str, ...], absent: tuple[str, ...]
) -> None:
    rows = {
        (name, state): {"fall": fall[name in WITH], "correct far": 0.5}
        for name in WITHOUT | WITH
        for state in (UNTRAINED, TRAINED)
    }
    text = " ".join(answer(ResultTable(("model", "trained"), {}, rows)))
    assert all(part in text for part in expected) and not any(part in text for part in absent)
