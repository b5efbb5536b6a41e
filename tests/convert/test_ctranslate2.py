"""Models in CTranslate2 give the same output as ours, or are refused."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.alignment.from_attention import Aligner
from regard.convert.ctranslate2.format import CTranslate2Format
from regard.convert.ctranslate2.model import CTranslate2Model, write_ctranslate2
from regard.convert.ctranslate2.problem import ctranslate2_problem
from regard.convert.ctranslate2.spec import vocabulary
from regard.convert.export_check import compare, sample_inputs
from regard.convert.export_format import ExportOptions, Quantization
from regard.data.batch import collate_sources, forced_batch
from regard.search.decode import DecodeConfig, decode
from regard.text.list_tokenizer import ListTokenizer
from regard.text.tokenizer import ByteTokenizer
from regard.text.vocab import EOS
from tests.convert.shapes import SEPARATE, SHAPES, bundle_of, largest_forced_difference, sentencepiece

REFUSED = {
    "ALiBi": "sinusoidal, learned, rotary or no positions",
    "score cosine, bilinear, additive or location": "score=additive",
    "normaliser other than softmax": "normalise=hardmax",
    "linear attention": "attention=linear",
    "rope_scaling": "rope_scaling",
    "RNN": "the encoder is of kind rnn",
    "state space": "the encoder is of kind ssm",
    "Transformer encoder, RNN decoder": "the decoder is of kind rnn",
    "language model, RNN": "the decoder is of kind rnn",
    "language model, feed-forward window": "the decoder is of kind feedforward",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_exported_model_is_equal_or_refused(shape: str, tmp_path: Path) -> None:
    bundle = bundle_of(shape)
    problem = ctranslate2_problem(bundle)
    assert (problem is None) == (shape not in REFUSED), problem
    if problem is not None:
        assert REFUSED[shape] in problem and "CTranslate2" in problem and "\n" not in problem
        return
    write_ctranslate2(bundle, tmp_path)
    model = CTranslate2Model(tmp_path, bundle)
    checked = compare(bundle, model, sample_inputs(bundle)[:6], max_len=20)
    assert checked.differences == ()
    assert checked.max_log_prob_difference < 1e-5
    assert largest_forced_difference(bundle, model) < 2e-5


def test_outputs_of_the_check_have_positions_where_sources_are_short(tmp_path: Path) -> None:
    bundle = replace(
        bundle_of("Transformer, pre-norm, sinusoidal (the default)", max_len=8), decode=DecodeConfig(max_source=5)
    )
    with torch.no_grad():
        bundle.model.output.weight[EOS] = 0.0
    write_ctranslate2(bundle, tmp_path)
    assert compare(bundle, CTranslate2Model(tmp_path, bundle), [[7, 8, 9]]).differences == ()


@pytest.mark.parametrize("shape", ["grouped-query attention", "d_value other than d_head", SEPARATE])
@pytest.mark.parametrize("layer, head", [(0, 3), (1, 1), (1, None)])
def test_attention_is_that_of_the_chosen_head(shape: str, layer: int, head: int | None, tmp_path: Path) -> None:
    bundle = replace(bundle_of(shape), alignment=Aligner(layer=layer, head=head))
    write_ctranslate2(bundle, tmp_path)
    source, target = [8, 20, 9, 33, 12], [11, 30, 7]
    attention = CTranslate2Model(tmp_path, bundle).attention(source, target)
    with torch.inference_mode():
        traces = bundle.model.trace_attention(forced_batch([source], [target]))
    weights = traces.cross[layer].weights[0]
    expected = weights.mean(0) if head is None else weights[head]
    np.testing.assert_allclose(attention, expected[: len(target), : len(source)], atol=1e-6)


def test_every_id_has_a_token_of_its_own() -> None:
    assert vocabulary(ListTokenizer("char", ["a", "b", "a", "\ud800"]))[6:] == ["a", "b", "<id 8>", "<id 9>"]
    assert vocabulary(ListTokenizer("word", ["<s>", "a"]))[6:] == ["▁<s>", "▁a"]
    assert len(set(vocabulary(ByteTokenizer()))) == ByteTokenizer.size


@pytest.mark.parametrize("quantization", ["float16", "bfloat16", "int8", "int8_float16", "int8_bfloat16", "int16"])
def test_rounded_weights_stay_close(quantization: Quantization, tmp_path: Path) -> None:
    bundle = bundle_of("Llama-like encoder-decoder")
    before = bundle.model.output.weight.clone()
    write_ctranslate2(bundle, tmp_path, quantization)
    assert torch.equal(bundle.model.output.weight, before)
    checked = compare(bundle, CTranslate2Model(tmp_path, bundle), sample_inputs(bundle)[:4], max_len=10)
    assert 1e-6 < checked.max_log_prob_difference < 1.0


@pytest.mark.parametrize("shape", ["Transformer, pre-norm, sinusoidal (the default)", "decoder-only translator"])
def test_the_program_in_the_readme_translates(shape: str, tmp_path: Path) -> None:
    bundle = bundle_of(shape, tokenizer=sentencepiece())
    bundle = replace(bundle, decode=DecodeConfig(beam=1), examples=('the "red" cat\\n arrived',))
    CTranslate2Format().write(bundle, tmp_path, ExportOptions())
    [program] = re.findall(r"```python\n(.*?)```", CTranslate2Format().usage(bundle), re.DOTALL)
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    max_len = 256 if "Translator" in program else 100
    [source] = bundle.tokenizers.src.encode(bundle.examples)
    [[expected]] = decode(bundle.model, collate_sources([source]), DecodeConfig(beam=1, max_len=max_len))
    assert done.stdout.rstrip("\n") == bundle.tokenizers.tgt.decode(expected.ids)
