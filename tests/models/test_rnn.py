"""Recurrent models: each against its equations, computed step by step."""

import pytest
import torch

from regard import models
from regard.data.batch import Batch
from regard.errors import UserError
from regard.nn.recurrent import CELLS, Recurrent
from tests.conftest import VOCAB, random_batch


def rnn(cell: str = "gru", **decoder: object) -> models.Model:
    torch.manual_seed(0)
    config = {
        "kind": "encoder-decoder",
        "encoder": {"kind": "rnn", "d_model": 8, "dropout": 0.0, "cell": cell},
        "decoder": {"kind": "rnn", "d_model": 8, "dropout": 0.0, "cell": cell, **decoder},
        "tied": False,
    }
    return models.build(config, VOCAB).double().eval()


def test_context_as_output_follows_the_equations_of_usc() -> None:
    """e_j = h_t · h_j;  α = softmax(e);  c = Σ α_j h_j;  p(y) = softmax(W [c ; h_t])"""
    model, batch = rnn(attention="dot"), random_batch([(4, 3)])
    keys = model.encoder(batch.src).values[0, :5]
    h = model.decoder.initial_state(model.encoder(batch.src).summary).tanh()[None]
    for t in range(4):
        x = model.decoder.tokens(batch.tgt_in[:, t : t + 1])
        _, h = model.decoder.rnn.rnn(x, h)
        state = h[0, 0]
        alpha = torch.stack([state @ key for key in keys]).softmax(0)
        c = sum(a * key for a, key in zip(alpha, keys, strict=True))
        torch.testing.assert_close(model(batch)[0, t], model.output.weight @ torch.cat([c, state]))


def test_context_as_input_follows_the_equations_of_purdue() -> None:
    """q = [h ; x];  α = softmax(W_a q + b_a);  c = H α;  z = ReLU(W_c [x ; c] + b_c);  (y, h) = RNN(z, h)"""
    model, batch = rnn(attention="location", context="input", max_len=12), random_batch([(4, 3)])
    decoder = model.decoder
    memory = model.encoder(batch.src)
    keys = memory.values[0, :5]
    h = decoder.initial_state(memory.summary).tanh()[None]
    for t in range(4):
        x = decoder.tokens(batch.tgt_in[0, t])
        q = torch.cat([h[0, 0], x])
        alpha = (decoder.attention.score.position_scores.weight @ q + decoder.attention.score.position_scores.bias)[
            :5
        ].softmax(0)
        c = keys.T @ alpha
        z = (decoder.join.weight @ torch.cat([x, c]) + decoder.join.bias).relu()
        y, h = decoder.rnn.rnn(z[None, None], h)
        torch.testing.assert_close(model(batch)[0, t], model.output.weight @ y[0, 0])


def test_location_over_all_positions_normalises_as_the_slide_does() -> None:
    """α = softmax(W_a q + b_a) over L_max positions; those after the source have no value"""
    options = {"attention": "location", "context": "input", "max_len": 12}
    model, batch = rnn(**options, normalise_over="max_len"), random_batch([(4, 3)])
    trace = model.trace_attention(batch).cross[0]
    scores = model.decoder.attention.score.position_scores(trace.q[0, 0])
    torch.testing.assert_close(trace.weights[0, 0, :, :5], scores.softmax(-1)[:, :5])
    assert not trace.weights[0, 0, :, 5:].any()
    over_source = rnn(**options).trace_attention(batch).cross[0]
    first, first_over_source = trace.weights[0, 0, 0], over_source.weights[0, 0, 0]
    assert first.sum() < 1
    torch.testing.assert_close(first / first.sum(), first_over_source)


def test_monotonic_attention_sees_a_window_around_the_target_position() -> None:
    model, batch = rnn(local="monotonic", window=1), random_batch([(4, 6)])
    [trace] = model.trace_attention(batch).cross
    for t in range(7):
        centre = min(t, 4)
        visible = [s for s in range(5) if abs(s - centre) <= 1]
        alpha = (model.encoder(batch.src).values[0, visible] @ trace.q[0, 0, t]).softmax(0)
        torch.testing.assert_close(trace.weights[0, 0, t, visible], alpha)
        assert trace.weights[0, 0, t].count_nonzero() == len(visible)


def test_predictive_attention_follows_the_equations_of_luong() -> None:
    """p_t = (n − 1) σ(vᵀ tanh(W h_t));  α_s = softmax_window(e)_s · exp(−(s − p_t)² / 2σ²), σ = D/2"""
    model, batch = rnn(local="predictive", window=2), random_batch([(6, 3), (9, 3)])
    keys, n = model.encoder(batch.src).values[0], 7
    [trace] = model.trace_attention(batch).cross
    hidden, _, out = model.decoder.attention.local.predict
    for t in range(4):
        h = trace.q[0, 0, t]
        p = (n - 1) * torch.sigmoid(out.weight[0] @ torch.tanh(hidden.weight @ h))
        visible = [s for s in range(n) if abs(s - p) <= 2]
        alpha = (keys[visible] @ h).softmax(0) * torch.exp(-((torch.tensor(visible) - p) ** 2) / 2)
        torch.testing.assert_close(trace.weights[0, 0, t, visible], alpha)
        assert trace.weights[0, 0, t].count_nonzero() == len(visible)


def test_the_simple_cell_follows_its_equation() -> None:
    """h_t = tanh(W x_t + U h_{t−1} + b)"""
    torch.manual_seed(0)
    layer, x = Recurrent("rnn", 3, 4, 1, 0.0).double(), torch.randn(1, 5, 3).double()
    w, u, b, c = (getattr(layer.rnn, name) for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"))
    h = torch.zeros(4).double()
    for t, y in enumerate(layer(x)[0][0]):
        h = torch.tanh(w @ x[0, t] + u @ h + b + c)
        torch.testing.assert_close(y, h)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"normalise_over": "max_len"}, "attention=location"),
        ({"local": "monotonic", "attention": "none"}, "needs attention"),
        ({"local": "predictive", "normalise": "hardmax"}, "normalise=softmax"),
        ({"local": "monotonic", "attention": "location", "normalise_over": "max_len"}, "leave out normalise_over"),
        ({"window": 0}, "at least 1"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        rnn(**options)


def test_without_attention_the_decoder_sees_the_last_states_of_both_directions() -> None:
    model, batch = rnn(attention="none"), random_batch([(4, 3)])
    memory = model.encoder(batch.src)
    src = batch.src[:, :5]
    forward = model.encoder.layers[0].left_to_right.rnn(model.encoder.tokens(src))[1][0]
    backward = model.encoder.layers[0].right_to_left.rnn(model.encoder.tokens(src.flip(1)))[1][0]
    torch.testing.assert_close(memory.summary, torch.cat([forward, backward], dim=-1))
    assert model.trace_attention(batch).cross == []


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_a_bidirectional_layer_equals_torch_on_packed_sequences(cell: str) -> None:
    model, batch = rnn(cell), random_batch([(4, 3), (9, 3), (1, 1)])
    layer = model.encoder.layers[0]
    theirs = CELLS[cell](8, 4, bidirectional=True, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        for name, parameter in layer.left_to_right.rnn.named_parameters():
            getattr(theirs, name).copy_(parameter)
        for name, parameter in layer.right_to_left.rnn.named_parameters():
            getattr(theirs, f"{name}_reverse").copy_(parameter)
    lengths = (batch.src != 0).sum(1)
    packed = torch.nn.utils.rnn.pack_padded_sequence(
        model.encoder.tokens(batch.src), lengths, batch_first=True, enforce_sorted=False
    )
    expected, _ = torch.nn.utils.rnn.pad_packed_sequence(
        theirs(packed)[0], batch_first=True, total_length=batch.src.shape[1]
    )
    torch.testing.assert_close(model.encoder(batch.src).values, expected, rtol=0, atol=1e-12)


def test_a_source_longer_than_the_location_score_is_refused() -> None:
    model = rnn(attention="location", max_len=8)
    long = random_batch([(12, 3)])
    with pytest.raises(UserError, match="16 tokens is longer than the 8 positions"):
        model(long)
    assert model(Batch(long.src[:, :8], long.tgt_in, long.tgt_out)).shape[1] == long.tgt_in.shape[1]


def test_incompatible_widths_are_refused() -> None:
    with pytest.raises(UserError, match="context=input"):
        rnn(attention="dot", context="input")
    with pytest.raises(UserError, match="same width, not 8 and 6"):
        models.build(
            {
                "kind": "encoder-decoder",
                "encoder": {"kind": "rnn", "d_model": 6},
                "decoder": {"kind": "rnn", "d_model": 8},
            },
            VOCAB,
        )
