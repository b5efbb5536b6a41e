"""Transformers with an encoder and a decoder, also against those of torch."""

import pytest
import torch
from torch import nn

from regard import models
from regard.data.batch import Batch
from regard.errors import UserError
from regard.models.weights import load_weights, weights_of
from tests.conftest import VOCAB, random_batch, tiny_model
from tests.nn.torch_reference import copy_attention

VARIANTS = [
    {},
    {"norm": "post", "activation": "relu"},
    {"positions": "learned", "join": "concatenate", "tied": False},
    {"n_layers": 1, "n_decoder_layers": 3},
]


def test_the_base_model_has_as_many_parameters_as_in_the_paper() -> None:
    with torch.device("meta"):
        model = models.build({"kind": "transformer"}, vocab_size=37_000)
    assert 63e6 < sum(p.numel() for p in model.parameters()) < 65e6


@pytest.mark.parametrize("options", VARIANTS)
def test_step_by_step_equals_the_whole_target_at_once(options: dict[str, object]) -> None:
    model, batch = tiny_model(**options), random_batch([(3, 5), (7, 7), (1, 2)])
    expected = model(batch).log_softmax(-1)
    state = model.start(batch)
    for t in range(batch.tgt_in.shape[1]):
        log_probs, state = model.step(state, batch.tgt_in[:, t])
        torch.testing.assert_close(log_probs.double(), expected[:, t], rtol=0, atol=1e-5)


def test_selected_rows_continue_as_before() -> None:
    model, batch = tiny_model(), random_batch([(3, 5), (7, 7), (4, 4)])
    rows = torch.tensor([2, 0, 2])
    _, state = model.step(model.start(batch), batch.tgt_in[:, 0])
    all_rows, _ = model.step(state, batch.tgt_in[:, 1])
    selected, _ = model.step(state.select(rows), batch.tgt_in[rows, 1])
    torch.testing.assert_close(selected, all_rows[rows])


def test_padding_has_no_effect() -> None:
    model, long = tiny_model(), random_batch([(3, 4), (20, 30)])
    alone = Batch(long.src[:1, :4], long.tgt_in[:1, :5], long.tgt_out[:1, :5])
    torch.testing.assert_close(model(alone)[0], model(long)[0, :5], rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", VARIANTS)
def test_attention_weights_sum_to_one_and_respect_the_masks(options: dict[str, object]) -> None:
    model, batch = tiny_model(**options), random_batch([(3, 5), (9, 7)])
    traces = model.trace_attention(batch)
    for trace in (*traces.encoder, *traces.decoder, *traces.cross):
        torch.testing.assert_close(trace.weights.sum(-1), torch.ones_like(trace.weights[..., 0]), rtol=0, atol=1e-6)
        assert (trace.weights[~trace.mask] == 0).all()
    for trace in (*traces.encoder, *traces.cross):
        assert (trace.weights[0, :, :, 4:] == 0).all(), "no weight on the padding"
    for trace in traces.decoder:
        assert (trace.weights.triu(1) == 0).all(), "no weight on later tokens"


@pytest.mark.parametrize("options", VARIANTS)
def test_traced_attention_gives_the_same_output_as_the_fused_kernel(options: dict[str, object]) -> None:
    model, batch = tiny_model(**options), random_batch([(3, 5), (9, 7)])
    logits, _ = model.forward_traced(batch)
    torch.testing.assert_close(logits, model(batch), rtol=0, atol=1e-10)


@pytest.mark.parametrize(("norm", "activation"), [("pre", "gelu"), ("post", "relu")])
def test_equals_torch_transformer(norm: str, activation: str) -> None:
    ours = tiny_model(norm=norm, activation=activation)
    d, h, ff = 16, 4, 32
    options = {"dropout": 0.0, "activation": activation, "batch_first": True, "norm_first": norm == "pre"}
    final = (lambda: nn.LayerNorm(d)) if norm == "pre" else (lambda: None)
    theirs = nn.Transformer(
        d,
        h,
        custom_encoder=nn.TransformerEncoder(
            nn.TransformerEncoderLayer(d, h, ff, **options), 2, norm=final(), enable_nested_tensor=False
        ),
        custom_decoder=nn.TransformerDecoder(nn.TransformerDecoderLayer(d, h, ff, **options), 2, norm=final()),
        batch_first=True,
    ).double()
    theirs.eval()
    copy_transformer(ours, theirs)
    batch = random_batch([(3, 5), (7, 7)])
    pad = batch.src == 0
    expected = theirs(
        ours.encoder.embedding(batch.src),
        ours.decoder.embedding(batch.tgt_in),
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(batch.tgt_in.shape[1], dtype=torch.float64),
        src_key_padding_mask=torch.zeros_like(pad, dtype=torch.float64).masked_fill(pad, -torch.inf),
        memory_key_padding_mask=torch.zeros_like(pad, dtype=torch.float64).masked_fill(pad, -torch.inf),
        tgt_is_causal=True,
    )
    torch.testing.assert_close(ours(batch), ours.output(expected), rtol=0, atol=1e-10)


def copy_transformer(ours: models.Model, theirs: nn.Transformer) -> None:
    """Copy all weights into a Transformer of torch."""
    for mine, other in zip(ours.encoder.layers, theirs.encoder.layers, strict=True):
        copy_attention(mine.mixer, other.self_attn)
        copy_feedforward_and_norms(mine, other, {"mixer_residual": "norm1", "feedforward_residual": "norm2"})
    for mine, other in zip(ours.decoder.layers, theirs.decoder.layers, strict=True):
        copy_attention(mine.mixer, other.self_attn)
        copy_attention(mine.cross, other.multihead_attn)
        norms = {"mixer_residual": "norm1", "cross_residual": "norm2", "feedforward_residual": "norm3"}
        copy_feedforward_and_norms(mine, other, norms)
    for mine, other in ((ours.encoder.norm, theirs.encoder.norm), (ours.decoder.norm, theirs.decoder.norm)):
        if other is not None:
            other.load_state_dict(mine.state_dict())


def copy_feedforward_and_norms(mine: nn.Module, other: nn.Module, norms: dict[str, str]) -> None:
    other.linear1.load_state_dict(mine.feedforward.inner.state_dict())
    other.linear2.load_state_dict(mine.feedforward.outer.state_dict())
    for ours, theirs in norms.items():
        getattr(other, theirs).load_state_dict(getattr(mine, ours).norm.state_dict())


def test_embeddings_are_shared_with_the_output_layer_of_their_vocabulary() -> None:
    tied, separate = tiny_model(), models.build({"d_model": 16, "n_heads": 4}, VOCAB, src_vocab_size=50)
    assert tied.encoder.embedding.tokens.weight is tied.output.weight
    assert separate.encoder.embedding.tokens.weight.shape == (50, 16)
    assert separate.decoder.embedding.tokens.weight is separate.output.weight


def test_weights_of_another_shape_and_missing_ones_are_refused_by_name() -> None:
    weights = weights_of(tiny_model(d_ff=64))
    with pytest.raises(UserError, match="feedforward"):
        load_weights(tiny_model(), weights, "here")
    weights.pop("decoder.layers.0.mixer.query.weight")
    with pytest.raises(UserError, match=r"decoder\.layers\.0\.mixer\.query\.weight' is missing"):
        load_weights(tiny_model(d_ff=64), weights, "here")


def test_unknown_kind_and_key_are_refused() -> None:
    with pytest.raises(UserError, match="transformer"):
        models.build({"kind": "transfomer"}, vocab_size=10)
    with pytest.raises(UserError, match="did you mean 'd_model'"):
        models.build({"kind": "transformer", "dmodel": 8}, vocab_size=10)
    with pytest.raises(UserError, match="must divide"):
        models.build({"kind": "transformer", "n_heads": 3}, vocab_size=10)
