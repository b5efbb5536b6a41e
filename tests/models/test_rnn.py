"""Recurrent models: each against its equations, computed step by step."""

import pytest
import torch

from regard import models
from regard.data.batch import Batch
from regard.errors import UserError
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


def test_without_attention_the_decoder_sees_the_last_states_of_both_directions() -> None:
    model, batch = rnn(attention="none"), random_batch([(4, 3)])
    memory = model.encoder(batch.src)
    src = batch.src[:, :5]
    forward = model.encoder.layers[0].left_to_right.rnn(model.encoder.tokens(src))[1][0]
    backward = model.encoder.layers[0].right_to_left.rnn(model.encoder.tokens(src.flip(1)))[1][0]
    torch.testing.assert_close(memory.summary, torch.cat([forward, backward], dim=-1))
    assert model.trace_attention(batch).cross == []


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_a_bidirectional_layer_equals_torch_on_packed_sequences(cell: str) -> None:
    model, batch = rnn(cell), random_batch([(4, 3), (9, 3), (1, 1)])
    layer = model.encoder.layers[0]
    theirs = torch.nn.GRU(8, 4, bidirectional=True, batch_first=True, dtype=torch.float64)
    if cell == "lstm":
        theirs = torch.nn.LSTM(8, 4, bidirectional=True, batch_first=True, dtype=torch.float64)
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
    assert model(Batch(long.src[:, :8], long.tgt_in, long.tgt_out)).shape[1] == 8


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
