"""Export to transformers: the same logits, the same greedy output and the same tokens there."""

import random
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from regard import models
from regard.bundle import Bundle
from regard.cli import main
from regard.convert.export import export
from regard.convert.export_check import compare, encode_inputs
from regard.convert.hf_model import TransformersModel
from regard.convert.hf_tokenizer import make_tokenizer
from regard.data.batch import forced_batch
from regard.errors import UserError
from regard.search.decode import DecodeConfig, decode
from regard.text.clean import clean
from regard.text.tokenizer import (
    ByteTokenizer,
    ListTokenizer,
    SentencePieceTokenizer,
    Tokenizer,
    TokenizerConfig,
    TokenizerPair,
)
from regard.text.vocab import EOS

WORDS = ["the", "green", "witch", "arrived", "at", "a", "small", "house", "d'été", "straße", "12", "345", "(yes)", "…"]
WORDS += ["<b>", "aaa", ".....", "東京"]
TEXTS = [" ".join(random.Random(i).choices(WORDS, k=3 + i % 9)) for i in range(400)]
SMALL = {"kind": "transformer", "d_model": 16, "n_heads": 4, "d_ff": 24, "n_layers": 2, "dropout": 0.0}
LLAMA = {"positions": "rotary", "norm_kind": "rms", "activation": "swiglu", "bias": False, "n_kv_heads": 2}
CARD = "---\nmetrics:\n- bleu\n---\n# x\n\n| | |\n|---|---|\n| updates | 7 |\n"


def tokenizer(kind: str = "bpe", every: int = 1, **options: Any) -> Tokenizer:
    config = TokenizerConfig(kind=kind, vocab_size=400, **options)
    if kind in ("bpe", "unigram"):
        return SentencePieceTokenizer.train(TEXTS[::every], config)
    return ByteTokenizer() if kind == "bytes" else ListTokenizer.train(TEXTS[::every], config)


@pytest.fixture(scope="module")
def joint() -> TokenizerPair:
    made = tokenizer(byte_fallback=False)  # bytes that form no character are decoded otherwise by transformers
    return TokenizerPair(made, made)


@pytest.fixture(scope="module")
def separate() -> TokenizerPair:
    return TokenizerPair(tokenizer(), tokenizer(every=3, byte_fallback=False))


def make_bundle(tokenizers: TokenizerPair, task: Any = "translate", **options: Any) -> Bundle:
    """Make an untrained model whose probabilities are far from uniform."""
    torch.manual_seed(0)
    config = models.parse_config(options)
    model = models.build(config, tokenizers.tgt.size, None if tokenizers.joint else tokenizers.src.size).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return Bundle(model, config, tokenizers, ("en", "fr"), DecodeConfig(beam=2), task)


def transformer(**options: Any) -> dict[str, Any]:
    return {**SMALL, **options}


def decoder(tied: bool = True, **options: Any) -> dict[str, Any]:
    return {"kind": "decoder", "tied": tied, "decoder": {**SMALL, **options}}


SCALING = {"factor": 4.0, "low": 0.5, "high": 2.0, "context": 16}
UNEQUAL = {
    "kind": "encoder-decoder",
    "encoder": {**SMALL, "n_heads": 2, "n_layers": 1, "positions": "learned", "max_len": 40},
    "decoder": {**SMALL, "positions": "none", "d_ff": 8},
}
SHAPES = {
    "pre": ("joint", "translate", transformer()),
    "pre untied learned": ("joint", "translate", transformer(tied=False, positions="learned", max_len=50)),
    "pre grouped no bias": ("joint", "translate", transformer(n_kv_heads=2, bias=False, activation="relu")),
    "pre separate": ("separate", "translate", transformer(n_decoder_layers=1)),
    "pre separate untied": ("separate", "translate", transformer(tied=False)),
    "unequal": ("joint", "translate", UNEQUAL),
    "post": ("joint", "translate", transformer(norm="post", activation="silu", output_bias=True)),
    "post separate": ("separate", "translate", transformer(norm="post")),
    "post untied": ("joint", "translate", transformer(norm="post", tied=False)),
    "gpt2": ("joint", "text", decoder(positions="learned", max_len=120)),
    "gpt2 untied": ("joint", "text", decoder(tied=False, n_kv_heads=1, bias=False)),
    "gpt2 translator": ("joint", "translate", decoder(positions="learned", max_len=120)),
    "gpt2 shipped": ("joint", "text", decoder(activation="gelu-tanh", scale_embedding=False, norm_eps=1e-3)),
    "llama": ("joint", "text", decoder(**LLAMA)),
    "llama 3.1": ("joint", "text", decoder(**LLAMA, rope_theta=500.0, rope_scaling=SCALING, norm_eps=1e-2)),
    "llama translator": ("joint", "translate", decoder(**{**LLAMA, "bias": True, "d_head": 6}, tied=False)),
}


@pytest.fixture(autouse=True)
def _short_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.convert.export_check._MAX_LEN", 15)


@pytest.mark.parametrize("name", SHAPES)
def test_transformers_gives_our_output(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    from transformers import AutoTokenizer

    which, task, options = SHAPES[name]
    bundle = make_bundle(request.getfixturevalue(which), task, **options)
    bundle.save(tmp_path / "ours", CARD)
    texts = [TEXTS[1], " \tgreen  " + TEXTS[9], "日 the"]
    export(tmp_path / "ours", tmp_path / "hf", "hf", check=False)
    once = TransformersModel(tmp_path / "hf", bundle)
    once.model.save_pretrained(tmp_path / "again")
    AutoTokenizer.from_pretrained(tmp_path / "hf").save_pretrained(tmp_path / "again")
    twice = TransformersModel(tmp_path / "again", bundle)
    for exported in (once, twice):
        checked = compare(bundle, exported, encode_inputs(bundle, texts))
        assert not checked.differences and checked.max_log_prob_difference < 1e-5

    theirs = AutoTokenizer.from_pretrained(tmp_path / "again")
    [ids] = bundle.tokenizers.src.encode(["<sep> </s>"])
    first = 0 if bundle.tokenizers.joint else bundle.tokenizers.tgt.size
    assert theirs("<sep> </s>", add_special_tokens=False).input_ids == [first + i for i in ids]
    inputs = theirs(texts, return_tensors="pt", padding=True)
    outputs = twice.model.generate(**inputs, num_beams=1, max_new_tokens=12)
    start = inputs["input_ids"].shape[1] if options["kind"] == "decoder" else 0
    received = theirs.batch_decode(outputs[:, start:], skip_special_tokens=True)
    assert [clean(text) for text in received] == [clean(text) for text in our_outputs(bundle, texts)]


def our_outputs(bundle: Bundle, texts: list[str]) -> list[str]:
    """Greedy search of at most eleven tokens, or twelve where transformers does not count EOS"""
    outputs = []
    for text in texts:
        is_text = bundle.task == "text"
        [ids] = bundle.tokenizers.src.encode([text if is_text else clean(text)])
        n = 12 if bundle.model_config.kind == "decoder" else 11
        config = DecodeConfig(beam=1, max_len=n + len(ids) * is_text)
        [[best]] = decode(
            bundle.model, forced_batch(None if is_text else [ids], [[]]), config, [ids] if is_text else None
        )
        outputs.append(bundle.tokenizers.tgt.decode(best.ids[len(ids) * is_text :]))
    return outputs


REFUSED = {
    "norm_kind=rms": transformer(norm_kind="rms"),
    "positions=rotary": transformer(positions="rotary"),
    "positions=learned": transformer(norm="post", positions="learned"),  # lost when it is saved again
    "activation=swiglu": transformer(activation="swiglu"),
    "join=concatenate": transformer(join="concatenate"),
    "score=dot": transformer(score="dot"),
    "heads of width 6": transformer(d_head=6),
    "d_model=8 in the encoder": {**UNEQUAL, "encoder": {**SMALL, "d_model": 8}},
    "norm=post": decoder(norm="post"),
    "positions=alibi": decoder(positions="alibi"),
    "norm_kind=layer": decoder(positions="rotary"),
    "embedding_norm=True": transformer(embedding_norm=True),
    "norm_eps=0.5": transformer(norm_eps=0.5),
    "output_bias=True": {**decoder(), "output_bias": True},
    "attention=linear": transformer(attention="linear"),
    "ssm layers": {**UNEQUAL, "encoder": {**SMALL, "kind": "ssm"}},
    "not encoders": {"kind": "encoder", "encoder": SMALL},
}


@pytest.mark.parametrize("reason", REFUSED)
def test_a_shape_without_a_class_is_refused(reason: str, tmp_path: Path, joint: TokenizerPair) -> None:
    make_bundle(joint, **REFUSED[reason]).save(tmp_path / "ours", CARD)
    with pytest.raises(UserError, match=f"cannot export to hf: .*{reason}"):
        export(tmp_path / "ours", tmp_path / "hf", "hf")
    assert not (tmp_path / "hf").exists()


def test_the_command_writes_a_card_and_refuses_options_of_other_formats(
    tmp_path: Path, joint: TokenizerPair, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_bundle(joint, **transformer()).save(tmp_path / "ours", CARD)
    command = ["regard", "export", str(tmp_path / "ours"), str(tmp_path / "hf"), "--to", "hf"]
    monkeypatch.setattr(sys, "argv", [*command, "--license", "cc-by-4.0", "--quantization", "bfloat16"])
    with pytest.raises(SystemExit) as done:
        main()
    assert done.value.code == 0
    assert "outputs equal" in capsys.readouterr().out
    card = (tmp_path / "hf" / "README.md").read_text(encoding="utf-8")
    header = yaml.safe_load(card.split("---\n")[1])
    assert header["language"] == ["en", "fr"] and header["license"] == "cc-by-4.0" and header["metrics"] == ["bleu"]
    assert header["pipeline_tag"] == "translation" and "| updates | 7 |" in card and "Check: " in card
    assert "model.generate(**inputs)" in card
    for options in ({"quantization": "int8"}, {"shortlist": 9}):
        with pytest.raises(UserError, match="cannot export to hf: "):
            export(tmp_path / "ours", tmp_path / "other", "hf", **options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hf", "ours"]


ODD = [
    *"  \t\n\r\x0b\x1c\x85\xa0\u200b\u200d\u3000\ufeff▁_<>/😀日ß\u0301\x00\x7f\ufffdabc.-=12",
    "</s>",
    "<0x41>",
    "<pad>",
]


def odd_texts(n: int) -> list[str]:
    draw = random.Random(0)
    parts = [[draw.choice(ODD if draw.random() < 0.6 else WORDS) for _ in range(draw.randrange(12))] for _ in range(n)]
    return ["", " ", "\ufeffa", " \ufeffa", *TEXTS[:50], *("".join(part) for part in parts)]


TOKENIZERS = {
    "bpe": {},
    "bpe without bytes": {"byte_fallback": False},
    "lossless": {"lossless": True},
    "unigram": {"kind": "unigram"},
    "unigram without bytes": {"kind": "unigram", "byte_fallback": False},
    "unigram lossless": {"kind": "unigram", "lossless": True},
    "char": {"kind": "char"},
    "word": {"kind": "word"},
    "bytes": {"kind": "bytes"},
}


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("cleaned", [True, False])
@pytest.mark.parametrize("separate", [False, True])
def test_tokens_and_texts_are_ours(name: str, cleaned: bool, separate: bool) -> None:
    src = tokenizer(**TOKENIZERS[name])
    tgt = tokenizer(every=3, **TOKENIZERS[name]) if separate else src
    theirs = make_tokenizer(TokenizerPair(src, tgt), "$A </s>", cleaned)
    theirs.encode_special_tokens = True  # as tokenizer_config.json says
    first = tgt.size if separate else 0
    texts = odd_texts(400)
    if isinstance(src, SentencePieceTokenizer) and not src.is_bpe:
        # Where two segmentations have the same score, as "aa a" and "a aa", either may be taken.
        texts = [text for text in texts if not any(2 * c in text for c in "abc.-=12")]
    for text in texts:
        [ids] = src.encode([clean(text) if cleaned else text])
        assert theirs.encode(text).ids == [first + i for i in [*ids, EOS]], repr(text)
        [ids] = tgt.encode([clean(text)])
        assert theirs.decode([*ids, EOS, 0, 0], skip_special_tokens=True) == tgt.decode(ids)
