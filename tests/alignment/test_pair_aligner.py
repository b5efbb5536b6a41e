"""Pairs aligned in batches get the links that the record of each pair gives."""

import pytest
import torch

from regard import models
from regard.alignment import pair_aligner, sentence_pairs
from regard.alignment.from_attention import Aligner
from regard.alignment.sentence_pairs import align_pairs
from regard.errors import UserError
from regard.pipelines.length_limit import TooLongError
from regard.pipelines.translator import Translator
from regard.search.decode import DecodeConfig
from regard.text.tokenizer import TokenizerConfig, TokenizerPair, train_tokenizer
from tests.pipelines.examples import CPU, LEARNED, STACK, encoder_decoder, translator

SOURCES = ["the red cat sees a witch", "", "a cat", "the green witch arrived", "cat", "red xyz the", "a"] * 3
TARGETS = ["a cat arrived", "the", "", "red red red red red cat sleeps the", "a", "a green xyz cat", "the witch"] * 3
MODELS = {
    "transformer": {**STACK, "kind": "transformer"},
    "rnn": encoder_decoder(
        {"kind": "rnn", "d_model": 8, "dropout": 0.0}, {"kind": "rnn", "d_model": 8, "dropout": 0.0, "attention": "dot"}
    ),
    "decoder-only": {"kind": "decoder", "decoder": STACK},
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("aligner", [Aligner(), Aligner(layer=0, head=0), Aligner(threshold=0.15)], ids=str)
def test_batches_give_the_links_of_single_pairs(name: str, aligner: Aligner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_aligner, "_BATCH_TOKENS", 40)
    monkeypatch.setattr(sentence_pairs, "_WINDOW", 10)
    model = translator(MODELS[name])
    model.aligner = aligner
    expected = [aligner(model.record(source, target)) for source, target in zip(SOURCES, TARGETS, strict=True)]
    assert sum(map(len, expected)) > 20
    assert list(align_pairs(model, SOURCES, TARGETS)) == expected


@pytest.mark.parametrize("aligner", [Aligner(), Aligner(threshold=0.2)], ids=str)
def test_batches_give_the_links_of_single_pairs_without_spaces(aligner: Aligner) -> None:
    sources, targets = (
        ["私は学生です。", "iPhoneを買った", "a cat", "私"],
        ["a red cat", "猫がいる。", "猫です。", "the cat"],
    )
    tokenizer = train_tokenizer([*sources, *targets] * 5, TokenizerConfig(vocab_size=340))
    torch.manual_seed(1)
    network = models.build(MODELS["transformer"], tokenizer.size).eval()
    model = Translator(network, TokenizerPair(tokenizer, tokenizer), DecodeConfig(), CPU, aligner)
    expected = [aligner(model.record(source, target)) for source, target in zip(sources, targets, strict=True)]
    assert list(align_pairs(model, sources, targets)) == expected
    if aligner.threshold is None:
        assert [max(j for _, j in links) + 1 for links in expected] == [3, 5, 4, 2]


def test_problems_are_reported_in_order_and_the_other_pairs_go_on() -> None:
    model = translator(encoder_decoder(LEARNED, LEARNED))
    sources, targets = ["a cat", "a " * 20, "the", "a " * 12], ["a", "the", "a " * 2000, "the"]
    errors: list[TooLongError] = []
    links = list(align_pairs(model, sources, targets, on_too_long=errors.append))
    assert [bool(found) for found in links] == [True, False, False, False]
    assert [str(error).split(" has")[0] for error in errors] == [
        "pair 2: the text",
        "pair 3: the target",
        "pair 4: the text",
    ]
    stream = align_pairs(model, sources, targets)
    assert next(stream)
    with pytest.raises(TooLongError, match="pair 2"):
        next(stream)


def test_what_cannot_be_aligned_is_refused() -> None:
    model = translator(MODELS["transformer"])
    model.aligner = Aligner(layer=7)
    with pytest.raises(UserError, match="no layer 7; this model has 0 to 1"):
        list(align_pairs(model, ["a"], ["a"]))
    rnn = {"kind": "rnn", "d_model": 8, "dropout": 0.0}
    with pytest.raises(UserError, match="no cross attention"):
        list(align_pairs(translator(encoder_decoder(rnn, {**rnn, "attention": "none"})), ["a"], ["a"]))
