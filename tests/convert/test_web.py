"""The exported page: its JavaScript, run under node, equals the model and the tokenizers."""

import os
import random
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard.bundle import Bundle
from regard.convert.export import export
from regard.convert.export_check import compare, sample_inputs
from regard.convert.export_format import ExportOptions
from regard.convert.web import format as web_format
from regard.convert.web.format import WebFormat
from regard.convert.web.model import WebModel
from regard.data.batch import collate_sources
from regard.errors import UserError
from regard.models.encoder_decoder import EncoderDecoder
from regard.pipelines.translator import Translator
from regard.search.decode import DecodeConfig, decode
from regard.text.clean import clean
from regard.text.tokenizer import TokenizerConfig, TokenizerPair, train_tokenizer
from tests.convert.shapes import SHAPES, TRANSLATORS, bundle_of

needs_node = pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")

STATIC = Path(web_format.__file__).with_name("static")

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
    inputs = sample_inputs(bundle)[:3]
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
    assert problem is not None and ("export it to onnx" in problem or "regard serve" in problem)


@needs_node
@pytest.mark.parametrize("lengths", [{"min_len": 5, "max_len": 6}, {"max_len": 2}])
@pytest.mark.parametrize("beam", [1, 3])
def test_lengths_are_those_of_the_model(lengths: dict[str, int], beam: int, tmp_path: Path) -> None:
    config = DecodeConfig(beam=beam, precision="fp32", **lengths)
    bundle = replace(bundle_of("no positions"), decode=config)
    model = written(bundle, tmp_path / "web")
    translator = Translator(bundle.model, bundle.tokenizers, config, torch.device("cpu"))
    texts = bundle.tokenizers.src.decode(range(8, 14)), bundle.tokenizers.src.decode([9])
    for text, expected in zip(texts, translator.translate(texts), strict=True):
        assert model.call("translate", text=text, beam=beam) == expected.text


@needs_node
def test_int8_is_the_model_with_rounded_matrices(tmp_path: Path) -> None:
    bundle = bundle_of("no positions")
    WebFormat().write(bundle, tmp_path, ExportOptions(quantization="int8"))
    with torch.no_grad():
        for matrix in bundle.model.parameters():
            if matrix.ndim == 2:
                scale = matrix.abs().amax(1, keepdim=True) / 127
                matrix.copy_((matrix / scale).round() * scale)
    result = compare(bundle, WebModel(tmp_path), sample_inputs(bundle)[:4], max_len=12)
    assert result.differences == () and result.max_log_prob_difference < 2e-5


@needs_node
def test_products_are_the_same_without_webassembly() -> None:
    script = f"""
    const {{ Matrices }} = await import("{(STATIC / "matrix.js").as_uri()}");
    const WebAssembly = globalThis.WebAssembly;
    for (const [n, nIn, nOut] of [[3, 8, 12], [2, 8, 10], [1, 7, 5], [140000, 4, 4]]) {{
      const results = [WebAssembly, undefined].map((available) => {{
        globalThis.WebAssembly = available;
        const matrices = new Matrices(nIn * nOut);
        const weight = matrices.allocate(nIn * nOut);
        weight.forEach((_, i) => (weight[i] = Math.sin(i)));
        const x = Float32Array.from({{ length: n * nIn }}, (_, i) => Math.cos(i));
        return {{ fast: matrices.buffer !== null, y: matrices.linear(x, weight, undefined, nIn) }};
      }});
      const largest = results[0].y.reduce((max, value, i) => Math.max(max, Math.abs(value - results[1].y[i])), 0);
      console.log(JSON.stringify([results[0].fast, results[1].fast, results[0].y.length === n * nOut, largest < 1e-5]));
    }}"""
    done = subprocess.run(["node", "--input-type=module", "-e", script], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["[true,false,true,true]"] * 4, done.stderr


def test_a_node_that_fails_is_said_and_the_page_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle_of("no positions").save(tmp_path / "model", "toy")
    (tmp_path / "node").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "node").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    result = export(tmp_path / "model", tmp_path / "page", "web", check=[chr(0x100)])
    assert result.checked is None and "node ended with an error" in result.verdict


def test_without_node_the_page_is_written_but_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle_of("no positions").save(tmp_path / "model", "toy")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    result = export(tmp_path / "model", tmp_path / "page", "web")
    assert result.checked is None and "node is not installed" in result.verdict
    assert "node is not installed" in (tmp_path / "page" / "README.md").read_text()
    with pytest.raises(UserError, match="use float32 or int8"):
        export(tmp_path / "model", tmp_path / "other", "web", quantization="float16")
    assert not (tmp_path / "other").exists()


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


TOKENIZERS: dict[str, dict[str, object]] = {
    "bpe": {"vocab_size": 340},
    "bpe without bytes": {"vocab_size": 110, "byte_fallback": False},
    "unigram": {"kind": "unigram", "vocab_size": 340},
    "unigram without bytes": {"kind": "unigram", "vocab_size": 90, "byte_fallback": False},
    "char": {"kind": "char"},
    "word": {"kind": "word"},
    "bytes": {"kind": "bytes"},
}


def odd_texts(n: int) -> list[str]:
    """Parts of the corpus, mixed with characters that it does not have"""
    generator = random.Random(0)
    alphabet = "".join(CORPUS) + "  ▁" + "".join(ODD)
    lengths = [generator.randrange(1, 40) for _ in range(n)]
    return [*CORPUS, *ODD, *("".join(generator.choices(alphabet, k=length)) for length in lengths)]


@needs_node
@pytest.mark.parametrize("name", TOKENIZERS)
def test_tokenizer_equals_ours(name: str, tmp_path: Path) -> None:
    tokenizer = train_tokenizer(CORPUS, TokenizerConfig.parse(TOKENIZERS[name]))
    bundle = replace(bundle_of("no positions"), tokenizers=TokenizerPair(tokenizer, tokenizer))
    model, texts = written(bundle, tmp_path / "web"), odd_texts(3000)
    expected = tokenizer.encode([clean(text) for text in texts])
    assert [model.call("encode", text=text) for text in texts] == expected
    generator = random.Random(0)
    rows = [[generator.randrange(tokenizer.size) for _ in range(12)] for _ in range(500)]
    assert [model.call("decode", ids=ids) for ids in rows] == [tokenizer.decode(ids) for ids in rows]
