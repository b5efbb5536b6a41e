"""Decoder-only models: translation by concatenation of source and target."""

import pytest
import torch

from regard import models
from regard.data.batch import Batch, collate_sources
from regard.errors import UserError
from regard.search.decode import DecodeConfig, decode
from regard.text.vocab import EOS, SEP
from tests.conftest import random_batch
from tests.models.configs import CONSTANT_STATE, build, decoder_only


def test_source_and_target_are_read_as_one_text() -> None:
    model, batch = build("gpt"), random_batch([(5, 3)])
    text = torch.cat([torch.where(batch.src == EOS, SEP, batch.src)[:, :6], batch.tgt_in], dim=1)
    as_text = model(Batch(batch.src[:, :0], text, text))
    alone = Batch(batch.src[:, :6], batch.tgt_in, batch.tgt_out)
    torch.testing.assert_close(model(alone), as_text[:, 6:], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", CONSTANT_STATE)
def test_concatenation_needs_softmax_attention(name: str) -> None:
    with pytest.raises(UserError, match="concatenation"):
        build(name)(random_batch([(3, 3)]))


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_the_maximum_target_length_does_not_depend_on_other_sources(positions: str) -> None:
    torch.manual_seed(0)
    stack = {"kind": "transformer", "d_model": 16, "n_heads": 2, "d_ff": 16, "n_layers": 1}
    config = {"kind": "decoder", "decoder": {**stack, "positions": positions, "max_len": 30}}
    model = models.build(config, 20).double().eval()
    short, long = [7, 8, 9], [10] * 20
    decode_config = DecodeConfig(beam=2, min_len=26, max_len=40)
    alone = decode(model, collate_sources([short]), decode_config)[0][0]
    together = decode(model, collate_sources([short, long]), decode_config)
    assert together[0][0].ids == alone.ids
    if positions == "learned":
        assert len(alone.ids) == 30 - 1 - 4 and len(together[1][0].ids) == 30 - 1 - 21


def test_a_source_without_room_for_a_target_is_refused() -> None:
    model = models.build(decoder_only(positions="learned", max_len=8), 20)
    assert model.max_source_tokens == 5
    model.start(collate_sources([[7] * 5]))
    with pytest.raises(UserError, match="leaves no room for its target within 8 learned positions"):
        model.start(collate_sources([[7] * 6]))


def test_separate_vocabularies_are_refused() -> None:
    with pytest.raises(UserError, match=r"tokenizer\.joint=true"):
        models.build({"kind": "decoder"}, 20, src_vocab_size=30)
