"""Gradient attributions: the relations that each method promises."""

import pytest
import torch

from regard.data.batch import Batch
from regard.errors import UserError
from regard.pipelines.translator import Translator
from regard.search.decode import DecodeConfig
from regard.search.ensemble import Ensemble
from regard.text.tokenizer import TokenizerConfig, TokenizerPair, train_tokenizer
from regard.text.vocab import EOS
from regard.visualize.attribution import METHODS, attribute, compare_methods, source_gradients
from tests.models.configs import build

MODELS = ["transformer-transformer", "rnn-rnn", "rnn: additive, context as input, lstm", "rnn-transformer", "gpt"]


def make_translator(name: str) -> Translator:
    words = train_tokenizer(["a b c d e f g h i j k l m n"], TokenizerConfig(kind="word", vocab_size=40))
    return Translator(build(name), TokenizerPair(words, words), DecodeConfig(), torch.device("cpu"))


def make_batch(translator: Translator, source: str, target: str) -> Batch:
    return translator.encode(source).batch([*translator.encode_target(target), EOS])


@pytest.mark.parametrize("name", MODELS)
def test_integrated_gradients_sum_to_the_gain_over_a_zero_source(name: str) -> None:
    translator = make_translator(name)
    attribution = attribute(translator, "a b c", "d e", "integrated", steps=300)
    assert attribution.values.shape == (3, 4) and attribution.source_tokens == ("▁a", "▁b", "▁c", "</s>")
    batch = make_batch(translator, "a b c", "d e")
    gain = source_gradients(translator, batch)[2] - source_gradients(translator, batch, scale=0.0)[2]
    torch.testing.assert_close(torch.from_numpy(attribution.values.sum(1)).double(), gain, rtol=0.02, atol=5e-3)


@pytest.mark.parametrize("name", MODELS)
def test_gradient_times_input_sums_to_the_slope(name: str) -> None:
    """d/dα log p(y | α x) at α = 1 is Σ_s x_s · ∂/∂x_s, the sum of gradient × input over the source."""
    translator = make_translator(name)
    attribution = attribute(translator, "a b c", "d e", "gradient")
    batch, small = make_batch(translator, "a b c", "d e"), 1e-5
    above, below = (source_gradients(translator, batch, scale)[2] for scale in (1 + small, 1 - small))
    slope = (above - below) / (2 * small)
    torch.testing.assert_close(torch.from_numpy(attribution.values.sum(1)).double(), slope, rtol=1e-3, atol=1e-5)
    assert attribution.shares.sum(1) == pytest.approx(1.0)


def test_attribution_leaves_the_model_unchanged_and_refuses_bad_input() -> None:
    translator = make_translator("transformer-transformer")

    def cross_attention() -> object:
        return translator.trace(translator.encode_ids([7, 8]), [9])[1].cross

    before = cross_attention()
    values = attribute(translator, "a b", "c", "gradient").values
    assert (cross_attention() == before).all()  # type: ignore[attr-defined]
    assert not any(module._forward_hooks for module in translator.model.modules())
    with pytest.raises(UserError, match="choose gradient or integrated"):
        attribute(translator, "a", "b", "guess")
    with pytest.raises(UserError, match="empty"):
        attribute(translator, " ", "b", "gradient")
    tokenizers = TokenizerPair(translator.src_tokenizer, translator.tgt_tokenizer)
    ensemble = Translator(Ensemble([translator.model]), tokenizers, DecodeConfig(), translator.device)
    assert (attribute(ensemble, "a b", "c", "gradient").values == values).all()
    assert set(METHODS) == {"attention", "gradient", "integrated"}


def test_all_methods_are_compared_and_attention_only_if_the_model_has_it() -> None:
    records = compare_methods(make_translator("transformer-transformer"), "a b c", "d e")
    assert list(records) == list(METHODS)
    for record in records.values():
        assert record.cross.shape == (1, 1, 3, 4) and record.cross.sum(-1) == pytest.approx(1.0, abs=1e-5)
    without_attention = compare_methods(make_translator("rnn: no attention"), "a b c", "d e")
    assert list(without_attention) == ["gradient", "integrated"]
