"""The exported page: its JavaScript, run under node, equals the model and the tokenizers."""

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard.bundle import Bundle
from regard.convert.export_check import compare, sample_inputs
from regard.convert.export_format import ExportOptions
from regard.convert.web_format import WebFormat
from regard.convert.web_model import WebModel
from regard.data.batch import collate_sources
from regard.models.encoder_decoder import EncoderDecoder
from regard.search.decode import DecodeConfig, decode
from regard.text.clean import clean
from regard.text.tokenizer import Tokenizer, TokenizerConfig, TokenizerPair, train_tokenizer
from tests.convert.shapes import SHAPES, TRANSLATORS, bundle_of

needs_node = pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")

REFUSED = {
    "score cosine, bilinear, additive or location",
    "normaliser other than softmax",
    "linear attention",
    "RNN",
    "state space",
    "Transformer encoder, RNN decoder",
    "decoder-only translator",
    "decoder-only translator, ALiBi",
    *(SHAPES.keys() - TRANSLATORS.keys()),
}


def written(bundle: Bundle, folder: Path) -> WebModel:
    folder.mkdir()
    WebFormat().write(bundle, folder, ExportOptions())
    return WebModel(folder)


@needs_node
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape not in REFUSED])
def test_each_shape_equals_ours(shape: str, tmp_path: Path) -> None:
    bundle = bundle_of(shape)
    assert WebFormat().problem(bundle, ExportOptions()) is None
    model = written(bundle, tmp_path / "web")
    inputs = sample_inputs(bundle)[:4]
    result = compare(bundle, model, inputs, max_len=12)
    assert result.differences == () and result.max_log_prob_difference < 2e-5
    assert isinstance(bundle.model, EncoderDecoder)
    for ids in inputs:
        with torch.inference_mode():
            config = DecodeConfig(beam=4, max_len=12, precision="fp32")
            [[expected]] = decode(bundle.model, collate_sources([ids]), config)
        assert model.search(ids, (), 12, beam=4) == list(expected.ids)


@pytest.mark.parametrize("shape", sorted(REFUSED))
def test_other_shapes_are_refused(shape: str) -> None:
    problem = WebFormat().problem(bundle_of(shape), ExportOptions())
    assert problem is not None and "export this model to onnx" in problem


CORPUS = [
    "the green witch arrived , and the cats sat on the mat .",
    "l'été où les garçons dansaient près de la forêt !",
    "aaa aaaa banana bananas abababab",
    "Straße Äpfel 12 123 1234 x=1;y=2",
    "猫です。 犬です。",
]
ODD = [
    *(
        "",
        " ",
        "▁",
        "▁▁ a▁b ▁",
        "a  b",
        "<s> </s> <unk> <0x41>",
        "\u200b\u200d",
        "e\u0301",
        "\ufeffabc",
        "a\u00a0b\u3000c",
    ),
    *(
        "😀👩‍👩‍👧",
        "\U0010ffff\U00010348",
        "\ud800",
        "x\udfffy",
        "\x00\x01\x1c\x85",
        "ﬁ①Ａ",
        "ǅ ß ẞ İ ı",
        "a" * 300,
        "ab" * 200,
    ),
    *("مرحبا بالعالم", "नमस्ते दुनिया", "ไทย", "한국어", "\r\n\t\x0b\x0c", "\u2028\u2029", "⁇", "\ufffd"),
]


def tokenizers() -> dict[str, Tokenizer]:
    options: dict[str, dict[str, object]] = {
        "bpe": {"vocab_size": 340},
        "bpe without bytes": {"vocab_size": 110, "byte_fallback": False},
        "unigram": {"kind": "unigram", "vocab_size": 340},
        "unigram without bytes": {"kind": "unigram", "vocab_size": 90, "byte_fallback": False},
        "char": {"kind": "char"},
        "word": {"kind": "word"},
        "bytes": {"kind": "bytes"},
    }
    return {name: train_tokenizer(CORPUS, TokenizerConfig.parse(value)) for name, value in options.items()}


def odd_texts(n: int) -> list[str]:
    """Parts of the corpus, mixed with characters that it does not have"""
    generator = random.Random(0)
    alphabet = "".join(CORPUS) + "  ▁" + "".join(ODD)
    lengths = [generator.randrange(1, 40) for _ in range(n)]
    return [*CORPUS, *ODD, *("".join(generator.choices(alphabet, k=length)) for length in lengths)]


@needs_node
@pytest.mark.parametrize(
    "name", ["bpe", "bpe without bytes", "unigram", "unigram without bytes", "char", "word", "bytes"]
)
def test_tokenizer_equals_ours(name: str, tmp_path: Path) -> None:
    tokenizer = tokenizers()[name]
    bundle = replace(bundle_of("no positions"), tokenizers=TokenizerPair(tokenizer, tokenizer))
    model, texts = written(bundle, tmp_path / "web"), odd_texts(3000)
    expected = tokenizer.encode([clean(text) for text in texts])
    assert [model.call("encode", text=text) for text in texts] == expected
    generator = random.Random(0)
    rows = [[generator.randrange(tokenizer.size) for _ in range(12)] for _ in range(500)]
    assert [model.call("decode", ids=ids) for ids in rows] == [tokenizer.decode(ids) for ids in rows]
