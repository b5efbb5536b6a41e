"""Activation patching: own activations change nothing, all activations of another input give its output."""

import pytest
import torch

from regard.data.batch import Batch
from regard.errors import UserError
from regard.models.intervention import ChangedModel, Intervention
from regard.models.patch import PatchSite, combine, layer_sites, patch_from
from regard.models.record import KINDS
from regard.nn.attention import MultiHeadAttention
from regard.pipelines.base import EncodedInput
from regard.search.decode import DecodeConfig, decode
from regard.text.vocab import EOS
from tests.models.configs import ALL, SEQ2SEQ, build
from tests.models.test_stages import OTHERS, make_model

GREEDY = DecodeConfig(beam=1, max_len=6)


def inputs(name: str) -> tuple[Batch, Batch]:
    """An input and another one with as many tokens, each with a forced target"""
    source = torch.tensor([[7, 8, 9, 10, EOS]]) if name in SEQ2SEQ else torch.empty(1, 0, dtype=torch.int64)
    other = torch.tensor([[17, 9, 18, 12, EOS]]) if name in SEQ2SEQ else source
    return EncodedInput(source).batch([11, 12, 13, EOS]), EncodedInput(other).batch([21, 14, 10, EOS])


def head_sites(model: object) -> list[PatchSite]:
    return [
        PatchSite(kind, layer, head)
        for kind in KINDS
        for layer, module in enumerate(model.attention_modules(kind))  # type: ignore[attr-defined]
        if isinstance(module, MultiHeadAttention)
        for head in range(module.n_heads)
    ]


@pytest.mark.parametrize("name", ALL)
def test_own_activations_change_nothing_and_those_of_another_input_give_its_output(name: str) -> None:
    model, (batch, other) = build(name), inputs(name)
    with torch.inference_mode():
        plain, expected = model(batch), model(other)
        own = patch_from(model, batch, [*layer_sites(model), *head_sites(model)])
        torch.testing.assert_close(model(batch, own), plain, rtol=0, atol=1e-9)
        patch = patch_from(model, other)
        torch.testing.assert_close(model(batch, patch), expected, rtol=0, atol=1e-9)
        assert not torch.allclose(plain, expected)
        # Step by step as for the whole target at once
        state = model.start(batch, patch)
        for t in range(batch.tgt_in.shape[1]):
            log_probs, state = model.step(state, batch.tgt_in[:, t])
            torch.testing.assert_close(log_probs.double(), expected[:, t].log_softmax(-1), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in OTHERS if name.startswith(("labels", "tokens"))])
def test_encoder_only_models(name: str) -> None:
    model, batch = make_model(name)
    other = EncodedInput(torch.tensor([[17, 9, 18, 12, EOS]])).batch()
    with torch.inference_mode():
        plain = model(batch)
        torch.testing.assert_close(model(batch, patch_from(model, batch)), plain, rtol=0, atol=1e-9)
        torch.testing.assert_close(model(batch, patch_from(model, other)), model(other), rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["transformer-transformer", "rnn-rnn", "ssm-ssm", "gpt", "language model: linear"])
def test_a_search_with_all_activations_of_another_input_finds_its_output(name: str) -> None:
    model, (batch, other) = build(name), inputs(name)
    [[expected]] = decode(model, other, GREEDY)
    donor = Batch.of(other.src, torch.tensor([[2, *expected.ids, EOS]]))
    [[patched]] = decode(ChangedModel(model, patch_from(model, donor)), batch, GREEDY)
    assert patched.ids == expected.ids
    assert patched.log_prob == pytest.approx(expected.log_prob, abs=1e-5)
    [[plain]] = decode(model, batch, GREEDY)
    assert name not in SEQ2SEQ or abs(plain.log_prob - expected.log_prob) > 1e-3


@pytest.mark.parametrize("name", ["transformer-transformer", "language model: transformer", "rnn-rnn"])
def test_a_replaced_position_changes_only_what_follows_it(name: str) -> None:
    model, (batch, other) = build(name), inputs(name)
    layer = layer_sites(model)[-1].layer
    with torch.inference_mode():
        plain = model(batch)[0]
        patched = model(batch, patch_from(model, other, [PatchSite("decoder", layer, position=2)]))[0]
        expected = model(other)[0]
    torch.testing.assert_close(patched[2], expected[2], rtol=0, atol=1e-9)
    torch.testing.assert_close(patched[[0, 1, 3]], plain[[0, 1, 3]], rtol=0, atol=1e-9)


def test_a_replaced_head_and_a_head_that_is_off() -> None:
    """A head that is off and replaced at one position is replaced there, and off elsewhere."""
    model, (batch, other) = build("transformer-transformer"), inputs("transformer-transformer")
    with torch.inference_mode():
        patch = patch_from(model, other, [PatchSite("cross", 1, 2, position=1)])
        changed = model(batch, patch)[0]
        plain = model(batch)[0]
        off = Intervention.switch_off(model, [("cross", 1, 2)])
        assert not torch.allclose(changed[1], plain[1])
        torch.testing.assert_close(changed[0], plain[0], rtol=0, atol=1e-9)
        both = combine(off, patch)
        torch.testing.assert_close(model(batch, both)[0, 1], changed[1], rtol=0, atol=1e-9)
        torch.testing.assert_close(model(batch, both)[0, 2:], model(batch, off)[0, 2:], rtol=0, atol=1e-9)


def test_rows_of_a_batch_with_different_heads_off() -> None:
    model, (batch, _) = build("transformer-transformer"), inputs("transformer-transformer")
    heads = [("cross", 0, 1), ("encoder", 1, 3), ("decoder", 0, 0)]
    repeated = Batch(*(tensor.expand(3, -1) for tensor in batch.tensors()))
    together = model(repeated, Intervention(tuple(frozenset([head]) for head in heads)))
    for row, head in zip(together, heads, strict=True):
        torch.testing.assert_close(row, model(batch, Intervention.switch_off(model, [head]))[0], rtol=0, atol=1e-9)


def test_sites_that_do_not_exist_are_refused() -> None:
    model, (batch, _) = build("transformer-transformer"), inputs("transformer-transformer")
    for site, message in [
        (PatchSite("encoder", 2), "no encoder layer 2"),
        (PatchSite("cross", 0), "no cross layer 0"),
        (PatchSite("cross", 0, 4), "no head 4"),
        (PatchSite("encoder", 0, position=5), "no position 5; the other input has 0 to 4"),
    ]:
        with pytest.raises(UserError, match=message):
            patch_from(model, batch, [site])
    lstm = build("rnn: lstm, two layers")
    with pytest.raises(UserError, match="only the last layer can be replaced, here 1"):
        patch_from(lstm, batch, [PatchSite("decoder", 0)])
