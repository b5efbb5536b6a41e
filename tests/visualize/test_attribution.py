"""Gradients tell what the source did: relations that the methods promise."""

import pytest
import torch

from regard.errors import UserError
from regard.models.inside import single
from regard.pipelines.translator import Translator
from regard.search.decode import DecodeConfig
from regard.search.protocols import Ensemble
from regard.text.tokenizer import TokenizerConfig, TokenizerPair, train_tokenizer
from regard.visualize.attribution import METHODS, attribute, side_by_side, source_gradients
from tests.models.test_every_model import build

KINDS = ["transformer-transformer", "rnn-rnn", "rnn: additive, fed in, lstm", "rnn-transformer", "gpt"]


def translator(name: str) -> Translator:
    words = train_tokenizer(["a b c d e f g h i j k l m n"], TokenizerConfig(kind="word", vocab_size=40))
    return Translator(build(name), TokenizerPair(words, words), DecodeConfig(), torch.device("cpu"))


@pytest.mark.parametrize("name", KINDS)
def test_integrated_gradients_add_up_to_what_the_source_brought(name: str) -> None:
    one = translator(name)
    found = attribute(one, "a b c", "d e", "integrated", steps=300)
    assert found.values.shape == (3, 4) and found.source_tokens == ("▁a", "▁b", "▁c", "</s>")
    src, tgt = one.tokenizers.src.encode(["a b c", "d e"])
    batch = single([*src, 3], [2, *tgt, 3], one.device)
    gained = source_gradients(one, batch)[2] - source_gradients(one, batch, scale=0.0)[2]
    torch.testing.assert_close(torch.from_numpy(found.values.sum(1)).double(), gained, rtol=0.02, atol=5e-3)


@pytest.mark.parametrize("name", KINDS)
def test_the_gradient_is_the_slope(name: str) -> None:
    """d/dα log p(y | α x) at α = 1 is Σ_s x_s · ∂/∂x_s, which is what gradient × input sums to."""
    one = translator(name)
    found = attribute(one, "a b c", "d e", "gradient")
    src, tgt = one.tokenizers.src.encode(["a b c", "d e"])
    batch, small = single([*src, 3], [2, *tgt, 3], one.device), 1e-5
    above, below = (source_gradients(one, batch, scale)[2] for scale in (1 + small, 1 - small))
    slope = (above - below) / (2 * small)
    torch.testing.assert_close(torch.from_numpy(found.values.sum(1)).double(), slope, rtol=1e-3, atol=1e-5)
    assert found.shares.sum(1) == pytest.approx(1.0)


def test_the_model_is_left_as_it_was_and_mistakes_are_named() -> None:
    one = translator("transformer-transformer")
    before = one.attention([7, 8], [9]).cross
    attribute(one, "a b", "c", "gradient")
    assert (one.attention([7, 8], [9]).cross == before).all()
    assert not any(part._forward_hooks for part in one.model.modules())  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="choose gradient or integrated"):
        attribute(one, "a", "b", "guess")
    with pytest.raises(UserError, match="empty"):
        attribute(one, " ", "b", "gradient")
    voted = Translator(Ensemble([one.model]), one.tokenizers, DecodeConfig(), one.device)
    same = attribute(voted, "a b", "c", "gradient").values
    assert (same == attribute(one, "a b", "c", "gradient").values).all()
    assert set(METHODS) == {"attention", "gradient", "integrated"}


def test_attention_and_gradients_side_by_side() -> None:
    one = translator("transformer-transformer")
    found = side_by_side(one, "a b c", "d e")
    assert list(found) == list(METHODS)
    for record in found.values():
        assert record.cross.shape == (1, 1, 3, 4) and record.cross.sum(-1) == pytest.approx(1.0, abs=1e-5)
    assert list(side_by_side(translator("rnn: no attention"), "a b c", "d e")) == ["gradient", "integrated"]
