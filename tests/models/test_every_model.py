"""Relations that every model keeps, whatever it is made of."""

import itertools

import pytest
import torch

from regard import models
from regard.data.batch import Batch
from regard.errors import UserError
from regard.search.decode import DecodeConfig, decode
from regard.search.sampling import SamplingConfig
from tests.conftest import VOCAB, random_batch

STACK = {"d_model": 16, "n_heads": 4, "d_ff": 32, "n_layers": 2, "dropout": 0.0}
RNN = {"d_model": 16, "dropout": 0.0}
ENCODERS: dict[str, dict[str, object]] = {
    "feedforward": {"kind": "feedforward", **STACK},
    "rnn": {"kind": "rnn", **RNN},
    "transformer": {"kind": "transformer", **STACK},
    "ssm": {"kind": "ssm", **STACK, "d_state": 4},
}
DECODERS: dict[str, dict[str, object]] = {
    **ENCODERS,
    "rnn": {"kind": "rnn", **RNN, "attention": "dot"},
    "feedforward": {"kind": "feedforward", **STACK, "window": 3},
}
PAIRS = {
    f"{e}-{d}": {"kind": "encoder-decoder", "encoder": ENCODERS[e], "decoder": DECODERS[d]}
    for e, d in itertools.product(ENCODERS, DECODERS)
}


def pair(encoder: dict[str, object] | None = None, decoder: dict[str, object] | None = None) -> dict[str, object]:
    return {
        "kind": "encoder-decoder",
        "encoder": {**ENCODERS["rnn"], **(encoder or {})},
        "decoder": {**DECODERS["rnn"], **(decoder or {})},
    }


RNNS = {
    "no attention": pair(decoder={"attention": "none"}),
    "lstm, two layers": pair({"cell": "lstm", "n_layers": 2}, {"cell": "lstm", "n_layers": 2}),
    "one direction": pair({"bidirectional": False}),
    "untied": {**pair(), "tied": False},
    "cosine": pair(decoder={"attention": "cosine"}),
    "scaled dot, not normalised": pair(decoder={"attention": "scaled-dot", "normalise": "none"}),
    "bilinear, other widths": pair({"d_model": 12}, {"attention": "bilinear"}),
    "additive": pair(decoder={"attention": "additive"}),
    "location": pair(decoder={"attention": "location", "max_len": 40}),
    "location, fed in": pair(decoder={"attention": "location", "context": "input", "max_len": 40}),
    "additive, fed in, lstm": pair(decoder={"attention": "additive", "context": "input", "cell": "lstm"}),
}
TRANSFORMERS = {
    "linear attention": {"attention": "linear"},
    "the lecture's linear attention": {"attention": "linear", "feature": "identity"},
    "rotary": {"positions": "rotary"},
    "alibi": {"positions": "alibi"},
    "no positions": {"positions": "none"},
    "llama": {
        "positions": "rotary",
        "n_kv_heads": 2,
        "norm_kind": "rms",
        "activation": "swiglu",
        "bias": False,
    },
    "cosine": {"score": "cosine"},
    "additive": {"score": "additive"},
    "bilinear": {"score": "bilinear"},
    "location": {"score": "location"},
    "not normalised": {"normalise": "none"},
}
SEQ2SEQ: dict[str, dict[str, object]] = {
    **PAIRS,
    **{f"rnn: {name}": config for name, config in RNNS.items()},
    **{f"transformer: {name}": {"kind": "transformer", **STACK, **more} for name, more in TRANSFORMERS.items()},
    "gpt": {"kind": "decoder", "decoder": {**STACK, "kind": "transformer"}},
    "gpt, learned": {"kind": "decoder", "decoder": {**STACK, "kind": "transformer", "positions": "learned"}},
    "gpt, rotary": {"kind": "decoder", "decoder": {**STACK, "kind": "transformer", "positions": "rotary"}},
    "gpt, alibi, grouped": {
        "kind": "decoder",
        "decoder": {**STACK, "kind": "transformer", "positions": "alibi", "n_kv_heads": 1},
    },
}
WRITERS = {
    name: {"kind": "decoder", "decoder": decoder}
    for name, decoder in {**DECODERS, "linear": {**STACK, "kind": "transformer", "attention": "linear"}}.items()
}
ALL = {**SEQ2SEQ, **{f"writes with {name}": config for name, config in WRITERS.items()}}


def build(name: str, seed: int = 0) -> models.Model:
    torch.manual_seed(seed)
    model = models.build(ALL[name], vocab_size=VOCAB).double().eval()
    with torch.no_grad():
        model.output.weight.mul_(4.0)
    return model


def batch_for(name: str, lengths: list[tuple[int, int]]) -> Batch:
    batch = random_batch(lengths)
    if name in SEQ2SEQ:
        return batch
    return Batch(batch.src[:, :0], batch.tgt_in, batch.tgt_out)


@pytest.mark.parametrize("name", ALL)
def test_a_token_at_a_time_is_the_whole_target_at_once(name: str) -> None:
    model, batch = build(name), batch_for(name, [(3, 5), (7, 7), (1, 2)])
    expected = model(batch).log_softmax(-1)
    state = model.start(batch)
    for t in range(batch.tgt_in.shape[1]):
        log_probs, state = model.step(state, batch.tgt_in[:, t])
        real = batch.tgt_out[:, t] != 0
        torch.testing.assert_close(log_probs.double()[real], expected[real, t], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ALL)
def test_padding_and_neighbours_change_nothing(name: str) -> None:
    model, long = build(name), batch_for(name, [(3, 4), (20, 30)])
    s = 4 if name in SEQ2SEQ else 0
    alone = Batch(long.src[:1, :s], long.tgt_in[:1, :5], long.tgt_out[:1, :5])
    torch.testing.assert_close(model(alone)[0], model(long)[0, :5], rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ALL)
def test_selected_rows_go_on_as_they_would_have(name: str) -> None:
    model, batch = build(name), batch_for(name, [(3, 5), (7, 7), (4, 4)])
    rows = torch.tensor([2, 0, 2])
    _, state = model.step(model.start(batch), batch.tgt_in[:, 0])
    all_rows, _ = model.step(state, batch.tgt_in[:, 1])
    some, _ = model.step(state.select(rows), batch.tgt_in[rows, 1])
    torch.testing.assert_close(some, all_rows[rows])


@pytest.mark.parametrize("name", SEQ2SEQ)
def test_hypotheses_of_a_sentence_share_its_source(name: str) -> None:
    """Three hypotheses per sentence, with the source kept once per sentence or copied for each, go on alike."""
    model, batch = build(name), batch_for(name, [(3, 5), (7, 7), (4, 4)])
    rows = torch.tensor([0, 0, 0, 2, 2, 2])
    start = model.start(batch)
    shared, copied = start.select(rows, torch.tensor([0, 2])), start.select(rows)
    for t in range(3):
        ids = batch.tgt_in[rows, t]
        one, shared = model.step(shared, ids)
        other, copied = model.step(copied, ids)
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["transformer-transformer", "rnn-rnn", "ssm-ssm"])
def test_beam_search_does_not_copy_the_source_while_all_sentences_stay(name: str) -> None:
    model, batch = build(name), batch_for(name, [(3, 1), (7, 1)])
    start = model.start(batch)
    state = start.select(torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1]))
    state = state.select(torch.tensor([1, 0, 2, 2]), torch.tensor([0, 1]))
    assert [id(tensor) for tensor in source_tensors(state)] == [id(tensor) for tensor in source_tensors(start)]


def source_tensors(state: object) -> list[torch.Tensor]:
    if hasattr(state, "memory"):
        return [state.memory.values, state.memory.mask]
    return [tensor for source in state.sources for tensor in (*source.keys_values, source.mask)]


@pytest.mark.parametrize("name", ALL)
def test_the_size_of_the_state_is_what_it_says(name: str) -> None:
    if "gpt" in name:
        return  # reads the source as its past
    model, batch = build(name), batch_for(name, [(3, 5)])
    state = model.start(batch)
    for t in range(4):
        _, state = model.step(state, batch.tgt_in[:, t])
    held = _numbers_in(state.rnn) if hasattr(state, "rnn") else sum(_numbers_in(layer) for layer in state.layers)
    assert held == model.decoder.state_size(4)


@pytest.mark.parametrize("name", ALL)
def test_the_future_is_not_seen(name: str) -> None:
    model, batch = build(name), batch_for(name, [(5, 8)])
    other = batch.tgt_in.clone()
    other[:, 5] = 7 if other[0, 5] != 7 else 8
    changed = model(Batch(batch.src, other, batch.tgt_out))
    torch.testing.assert_close(changed[:, :5], model(batch)[:, :5], rtol=0, atol=1e-12)
    assert not torch.allclose(changed[:, 5], model(batch)[:, 5]), "but the token itself is"


@pytest.mark.parametrize("name", ALL)
def test_decoding_alone_is_decoding_in_a_batch_and_beam_1_is_greedy(name: str) -> None:
    model, batch = build(name, seed=3), batch_for(name, [(3, 1), (7, 1), (5, 1)])
    config = DecodeConfig(beam=3, max_len=8)
    together = decode(model, batch, config)
    for i, (s, row) in enumerate(zip((4, 8, 6), together, strict=True)):
        s = s if name in SEQ2SEQ else 0
        alone = decode(model, Batch(batch.src[i : i + 1, :s], batch.tgt_in[:1], batch.tgt_out[:1]), config)[0]
        assert [h.ids for h in alone] == [h.ids for h in row]
    greedy = decode(model, batch, DecodeConfig(beam=1, max_len=8))
    likeliest = decode(model, batch, DecodeConfig(max_len=8, sampling=SamplingConfig(top_k=1)))
    assert [[h.ids for h in row] for row in greedy] == [[h.ids for h in row] for row in likeliest]


@pytest.mark.parametrize("name", SEQ2SEQ)
def test_attention_weights_reach_every_source_token_and_no_padding(name: str) -> None:
    model, batch = build(name), batch_for(name, [(3, 5), (9, 7)])
    traces = model.trace_attention(batch)
    config = SEQ2SEQ[name]
    if "none" not in str(config.get("decoder", "")) or config["kind"] != "encoder-decoder":
        assert traces.cross
    for trace in (*traces.encoder, *traces.cross):
        n = batch.src.shape[1]
        padding = slice(4, n) if config["kind"] != "decoder" else slice(0, n - 4)
        if config["kind"] == "decoder" and any(trace is other for other in traces.encoder):
            continue  # padding there sees itself alone
        assert (trace.weights[0, :, :, padding] == 0).all()


def test_a_translator_without_encoder_sees_source_and_target_as_one_text() -> None:
    model, batch = build("gpt"), random_batch([(5, 3)])
    text = torch.cat([torch.where(batch.src == 3, 4, batch.src)[:, :6], batch.tgt_in], dim=1)
    as_text = model(Batch(batch.src[:, :0], text, text))
    alone = Batch(batch.src[:, :6], batch.tgt_in, batch.tgt_out)
    torch.testing.assert_close(model(alone), as_text[:, 6:], rtol=0, atol=1e-12)


def test_only_attention_translates_by_concatenation() -> None:
    for name in ("rnn", "ssm", "feedforward", "linear"):
        with pytest.raises(UserError, match="concatenation"):
            build(f"writes with {name}")(random_batch([(3, 3)]))


def test_constant_memory() -> None:
    for name in ("rnn", "ssm", "feedforward", "linear"):
        model = build(f"writes with {name}")
        state = model.start(Batch(*[torch.empty(1, 0, dtype=torch.int64)] * 3))
        sizes = set()
        for i in range(12):
            _, state = model.step(state, torch.tensor([6 + i]))
            sizes.add(_numbers_in(state))
        assert len(sizes) == 1, name


def _numbers_in(value: object) -> int:
    if isinstance(value, torch.Tensor):
        return value.numel()
    if isinstance(value, tuple):
        return sum(_numbers_in(part) for part in value)
    return sum(_numbers_in(part) for part in vars(value).values()) if hasattr(value, "__dict__") else 0
