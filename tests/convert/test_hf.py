"""Export to transformers: the same logits, the same greedy output and the same tokens there."""

import ast
import io
import random
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
import yaml

from regard import models
from regard.bundle import Bundle
from regard.cli import main
from regard.convert.ctranslate2.problem import ctranslate2_problem
from regard.convert.export import export
from regard.convert.export_check import compare, sample_inputs
from regard.convert.export_format import ExportOptions
from regard.convert.hf.format import HfFormat
from regard.convert.hf.model import TransformersModel
from regard.convert.hf.shape import shape_problem
from regard.convert.hf.tokenizer import make_tokenizer, tokenizer_problem
from regard.convert.import_model import import_model
from regard.convert.onnx.format import OnnxFormat
from regard.data.batch import forced_batch
from regard.errors import UserError
from regard.search.decode import DecodeConfig, decode
from regard.text.clean import clean
from regard.text.list_tokenizer import ListTokenizer
from regard.text.pretokenizers import KNOWN_PATTERNS
from regard.text.tokenizer import ByteTokenizer, SentencePieceTokenizer, Tokenizer, TokenizerConfig, TokenizerPair
from regard.text.vocab import BOS, EOS
from tests.convert import foreign_models
from tests.convert.foreign_models import write_marian
from tests.convert.shapes import SHAPES, bundle_of

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
    return ByteTokenizer() if kind == "bytes" else ListTokenizer.train(TEXTS[::every], kind, config.vocab_size)


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
    return Bundle(model, config, tokenizers, ("en", "fr"), DecodeConfig(beam=2, max_len=9), task)


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
MORE_SHAPES: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "pre, separate, untied": ("separate", "translate", transformer(tied=False)),
    "encoder unlike decoder": ("joint", "translate", UNEQUAL),
    "post, silu, output bias": ("joint", "translate", transformer(norm="post", activation="silu", output_bias=True)),
    "post, separate": ("separate", "translate", transformer(norm="post")),
    "post, untied": ("joint", "translate", transformer(norm="post", tied=False)),
    "gpt2, untied": ("joint", "text", decoder(tied=False, n_kv_heads=1, bias=False)),
    "gpt2, unscaled": ("joint", "text", decoder(activation="gelu-tanh", scale_embedding=False, norm_eps=1e-3)),
    "starcoder": ("joint", "text", decoder(positions="rotary", n_kv_heads=2)),
    "starcoder translator": ("joint", "translate", decoder(positions="rotary", bias=False, tied=False)),
    "llama 3.1": ("joint", "text", decoder(**LLAMA, rope_theta=500.0, rope_scaling=SCALING, norm_eps=1e-2)),
    "llama translator": ("joint", "translate", decoder(**{**LLAMA, "bias": True, "d_head": 6}, tied=False)),
}
REFUSED = {
    "rotary positions": "positions=rotary",
    "ALiBi": "positions=alibi",
    "positions concatenated": "join=concatenate",
    "RMSNorm": "norm_kind=rms",
    "SwiGLU": "activation=swiglu",
    "encoder and decoder of different width": "d_model=24 in the encoder",
    "Llama-like encoder-decoder": "norm_kind=rms",
    "d_head other than d_model / n_heads": "heads of width 6",
    "d_value other than d_head": "heads of width 2",
    "tanh-GELU, output bias, norm_eps": "norm_eps=0.001",
    "unscaled and normalised embeddings, SiLU": "embedding_norm=True",
    "rope_theta": "positions=rotary",
    "rope_scaling": "positions=rotary",
    "score dot": "score=dot",
    "score cosine, bilinear, additive or location": "score=additive",
    "normaliser other than softmax": "normalise=hardmax",
    "linear attention": "attention=linear",
    "RNN": "rnn layers",
    "state space": "ssm layers",
    "Transformer encoder, RNN decoder": "rnn layers",
    "decoder-only translator, ALiBi": "positions=alibi",
    "language model, ALiBi": "positions=alibi",
    "language model, RNN": "rnn layers",
    "language model, feed-forward window": "feedforward layers",
}
MORE_REFUSED = {
    "positions=learned": transformer(norm="post", positions="learned"),  # lost when the model is saved again
    "norm=post": decoder(norm="post"),
    "activation=gelu": decoder(positions="rotary", norm_kind="rms"),
    "output_bias=True": {**decoder(), "output_bias": True},
    "not encoders": {"kind": "encoder", "encoder": SMALL},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_equal_or_refused(shape: str, tmp_path: Path) -> None:
    bundle = bundle_of(shape)
    problem = shape_problem(bundle)
    assert (problem is None) == (shape not in REFUSED), problem
    if problem is None:
        assert_equal(bundle, sample_inputs(bundle)[:4], tmp_path)
    else:
        assert REFUSED[shape] in problem and "\n" not in problem
        assert ("ctranslate2" in problem) == (ctranslate2_problem(bundle) is None)
        assert ("onnx" in problem) == (OnnxFormat().problem(bundle, ExportOptions()) is None)
        assert "export to" in problem or "regard itself" in problem


@pytest.mark.parametrize("name", MORE_SHAPES)
def test_more_shapes_are_equal(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    which, task, options = MORE_SHAPES[name]
    bundle = make_bundle(request.getfixturevalue(which), task, **options)
    assert_equal(bundle, sample_inputs(bundle)[:4], tmp_path)


@pytest.mark.parametrize("reason", MORE_REFUSED)
def test_more_shapes_are_refused(reason: str, joint: TokenizerPair) -> None:
    assert reason in (shape_problem(make_bundle(joint, **MORE_REFUSED[reason])) or "")


def assert_equal(bundle: Bundle, inputs: list[list[int]], folder: Path) -> None:
    """Compare the exported model with ours, and what transformers makes of it when it saves it again."""
    HfFormat().write(bundle, folder, ExportOptions())
    once = TransformersModel(folder, bundle)
    once.model.save_pretrained(folder / "again")
    for exported in (once, TransformersModel(folder / "again", bundle)):
        checked = compare(bundle, exported, inputs, max_len=12)
        assert not checked.differences and checked.max_log_prob_difference < 1e-5


@pytest.mark.parametrize(
    "which, task, options",
    [
        ("joint", "translate", transformer(positions="learned", max_len=60)),
        ("separate", "translate", transformer(norm="post")),
        ("joint", "text", decoder(**LLAMA)),
        ("joint", "translate", decoder()),
    ],
)
def test_texts_pass_through_their_tokenizer_and_generate(
    which: str, task: Any, options: dict[str, Any], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    bundle = make_bundle(request.getfixturevalue(which), task, **options)
    HfFormat().write(bundle, tmp_path, ExportOptions())
    transformers.AutoTokenizer.from_pretrained(tmp_path).save_pretrained(tmp_path / "again")
    tokenizer, model = (
        transformers.AutoTokenizer.from_pretrained(tmp_path / "again"),
        TransformersModel(tmp_path, bundle),
    )
    [ids] = bundle.tokenizers.src.encode(["<sep> </s>"])
    first = 0 if bundle.tokenizers.joint else bundle.tokenizers.tgt.size
    assert tokenizer("<sep> </s>", add_special_tokens=False).input_ids == [first + i for i in ids]
    texts = [TEXTS[1], " \tgreen  " + TEXTS[9], "日 the"]
    inputs = tokenizer(texts, return_tensors="pt", padding=True)
    assert transformers.GenerationConfig.from_pretrained(tmp_path).num_beams == (1 if task == "text" else 2)
    outputs = model.model.generate(**inputs, num_beams=1, max_new_tokens=12)
    assert_readme_runs(tmp_path)
    start = inputs["input_ids"].shape[1] if options["kind"] == "decoder" else 0
    received = tokenizer.batch_decode(outputs[:, start:], skip_special_tokens=True)
    assert [clean(text) for text in received] == [clean(text) for text in our_outputs(bundle, texts)]


def assert_readme_runs(folder: Path) -> None:
    """Run the program in the README, which prints a list of one text."""
    card = (folder / "README.md").read_text(encoding="utf-8")
    program = card.split("```python\n")[1].split("```")[0].replace("this-folder", str(folder))
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(program, {})
    assert len(ast.literal_eval(printed.getvalue())) == 1


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


def test_the_command_writes_a_card_and_refuses_options_of_other_formats(
    tmp_path: Path, joint: TokenizerPair, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_bundle(joint, **transformer()).save(tmp_path / "ours", CARD)
    (tmp_path / "texts").write_text(TEXTS[0], encoding="utf-8")
    command = ["export", tmp_path / "ours", tmp_path / "hf", "--to", "hf", "--check", tmp_path / "texts"]
    command += ["--license", "cc-by-4.0", "--quantization", "bfloat16"]
    monkeypatch.setattr(sys, "argv", ["regard", *map(str, command)])
    with pytest.raises(SystemExit) as done:
        main()
    assert done.value.code == 0
    assert "outputs equal" in capsys.readouterr().out
    card = (tmp_path / "hf" / "README.md").read_text(encoding="utf-8")
    header = yaml.safe_load(card.split("---\n")[1])
    assert header["language"] == ["en", "fr"] and header["license"] == "cc-by-4.0" and header["metrics"] == ["bleu"]
    assert header["pipeline_tag"] == "translation" and "| updates | 7 |" in card and "outputs equal" in card
    assert "model.generate(**inputs)" in card
    for options in ({"quantization": "int8"}, {"shortlist": 9}):
        with pytest.raises(UserError, match="cannot export to hf: "):
            export(tmp_path / "ours", tmp_path / "other", "hf", **options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hf", "ours", "texts"]


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
@pytest.mark.parametrize("layout", ["shared", "separate"])
def test_an_imported_marian_model_goes_back(layout: str, tmp_path: Path) -> None:
    original = write_marian(tmp_path / "theirs", layout)
    import_model(tmp_path / "theirs", tmp_path / "ours")
    result = export(tmp_path / "ours", tmp_path / "hf", "hf", check=foreign_models.TEXTS[:2])
    assert result.checked and not result.checked.differences and result.checked.max_log_prob_difference < 1e-5
    exported = TransformersModel(tmp_path / "hf", Bundle.load(tmp_path / "ours")).model
    outputs = []
    for folder, model in (("theirs", original), ("hf", exported)):
        tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / folder)
        inputs = tokenizer(list(foreign_models.TEXTS), return_tensors="pt", padding=True)
        ids = model.generate(**inputs, num_beams=1, max_new_tokens=12)
        outputs.append(tokenizer.batch_decode(ids, skip_special_tokens=True))
    assert outputs[0] == outputs[1] and any(outputs[0])


@pytest.mark.parametrize("kind", ["gpt2", "llama 2", "llama 3"])
def test_an_imported_language_model_goes_back(kind: str, tmp_path: Path) -> None:
    """Also after its weights have changed: the bias that suppresses special tokens has not."""
    if kind == "gpt2":
        foreign_models.write_gpt2(tmp_path / "theirs")
    else:
        llama3 = next(pattern for pattern, name in KNOWN_PATTERNS.items() if name == "llama-3")
        made = foreign_models.metaspace() if kind == "llama 2" else foreign_models.byte_level(llama3, digits=True)
        foreign_models.write_llama(tmp_path / "theirs", made, tie_word_embeddings=kind == "llama 3")
    import_model(tmp_path / "theirs", tmp_path / "imported")
    bundle = Bundle.load(tmp_path / "imported")
    batch = forced_batch(None, bundle.tokenizers.tgt.encode(foreign_models.TEXTS[:1]))
    bundle.model(batch).log_softmax(-1)[..., 9].sum().backward()
    with torch.no_grad():
        for parameter in bundle.model.parameters():
            parameter.sub_(0.0 if parameter.grad is None else 0.01 * parameter.grad.sign())
    bundle.save(tmp_path / "ours", "x")
    result = export(tmp_path / "ours", tmp_path / "hf", "hf", check=foreign_models.TEXTS[:2])
    assert result.checked and not result.checked.differences and result.checked.max_log_prob_difference < 1e-5
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    model = TransformersModel(tmp_path / "hf", bundle)
    for text in (*foreign_models.TEXTS, *foreign_models.STRANGE):
        [ids] = bundle.tokenizers.tgt.encode([text])
        assert theirs(text).input_ids == [BOS, *ids]
        assert theirs.decode(ids, skip_special_tokens=True) == bundle.tokenizers.tgt.decode(ids)
    for text in foreign_models.TEXTS[:2]:
        [ids] = model.model.generate(**theirs(text, return_tensors="pt"), max_new_tokens=12)
        prompts = bundle.tokenizers.tgt.encode([text])
        config = DecodeConfig(beam=1, max_len=len(prompts[0]) + 12)
        [[ours]] = decode(bundle.model, forced_batch(None, [[]]), config, prompts)
        assert ids.tolist() in ([BOS, *ours.ids], [BOS, *ours.ids, EOS])
    import_model(tmp_path / "hf", tmp_path / "again")
    again = Bundle.load(tmp_path / "again")
    assert again.tokenizers.tgt.to_bytes() == bundle.tokenizers.tgt.to_bytes()
    with torch.inference_mode():
        probabilities = [loaded.model(batch).softmax(-1) for loaded in (bundle, again)]
    torch.testing.assert_close(*probabilities)


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


def test_tokens_that_the_library_confuses_are_refused() -> None:
    for symbols in (["<s>", "a"], ["a", "a"], ["\ud800"]):
        words = ListTokenizer("word", symbols)
        assert "is not a distinct text" in (tokenizer_problem(TokenizerPair(words, words)) or "")
    labels = ListTokenizer("label", ["a"])
    assert "has no form of its tokenizer" in (tokenizer_problem(TokenizerPair(labels, labels)) or "")
