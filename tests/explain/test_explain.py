"""The lectures' computations: their figures, their renderings, and the same on models of one's own."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from regard import models
from regard.bundle import Bundle, TaskName
from regard.data.builtin.grammar_corpus import generate_corpus
from regard.errors import UserError
from regard.explain.decode_setup import DecodeSetup
from regard.explain.explanation import Explanation, listing, matrix, step
from regard.explain.formula import frac, math, of, power, root, sub, total
from regard.explain.model_input import ModelInput
from regard.explain.number_format import number
from regard.explain.render_html import as_page
from regard.explain.render_text import as_text
from regard.explain.topics import TOPICS, listed, topic_named
from regard.nn.attention import attend
from regard.search.decode import DecodeConfig, decode
from regard.text.tokenizer import ListTokenizer, SentencePieceTokenizer, TokenizerConfig, TokenizerPair
from regard.train.recipe import load_recipe
from tests.cli.command import failed_in_one_line, regard

SENTENCE = "the green witch arrived"
STACK = {"kind": "transformer", "d_model": 16, "n_heads": 4, "d_ff": 32, "n_layers": 2}
MODELS: dict[str, tuple[TaskName, dict[str, object]]] = {
    "transformer": ("translate", STACK),
    "rotary": ("translate", {**STACK, "positions": "rotary", "n_kv_heads": 2}),
    "alibi": ("translate", {**STACK, "positions": "alibi"}),
    "linear": ("translate", {**STACK, "attention": "linear"}),
    "concatenation": ("translate", {"kind": "decoder", "decoder": STACK}),
    "rnn": (
        "translate",
        {
            "kind": "encoder-decoder",
            "encoder": {"kind": "rnn", "d_model": 16},
            "decoder": {"kind": "rnn", "d_model": 16, "attention": "dot"},
        },
    ),
    "gpt": ("text", {"kind": "decoder", "decoder": {**STACK, "positions": "learned", "max_len": 64}}),
    "classifier": ("classify", {"kind": "encoder", "encoder": STACK, "head": "label"}),
}
# What a model cannot show, it says in a line.
LACKING = {
    "rnn": ("masking", "shapes", "heads", "positions", "equivariance"),
    "linear": ("equivariance",),
    "gpt": ("translation",),
    "classifier": ("translation", "masking", "greedy", "beam", "cache", "smoothing"),
}
# These differences are the point; all others are rounding.
REAL = ("with a mask", "with positions", "as the model runs")


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Untrained models of every sort, with a small BPE vocabulary"""
    pairs = generate_corpus(100, 0, 1)["train"]
    texts = [side for pair in pairs for side in (pair.src, pair.tgt)]
    config = TokenizerConfig(vocab_size=120, byte_fallback=False)
    tokenizer = SentencePieceTokenizer.train(texts, config)
    made = {}
    for name, (task, options) in MODELS.items():
        torch.manual_seed(1)
        labels = ListTokenizer("label", ["good", "bad"])
        tokenizers = TokenizerPair(tokenizer, labels if task == "classify" else tokenizer)
        parsed = models.parse_config(options)
        src_size = None if tokenizers.joint else tokenizer.size
        model = models.build(parsed, tokenizers.tgt.size, src_size)
        made[name] = tmp_path_factory.mktemp("models") / name
        decoding = DecodeConfig(beam=3, min_len=2, max_len=6)
        Bundle(model, parsed, tokenizers, ("en", "fr"), decoding, task, context=64).save(made[name], card="")
        (made[name] / "config.yaml").write_text(load_recipe("tiny").to_yaml())
    return made


def own(
    folder: Path, text: str | None = SENTENCE, kind: str | None = None, layer: int = 0, head: int = 0
) -> ModelInput:
    return ModelInput.load(folder, text, kind, layer, head)


def lecture(name: str) -> Explanation:
    return topic_named(name).lecture()


def assert_only_rounding(worked: Explanation, limit: float) -> None:
    for table in (table for each in worked.steps for table in each.tables):
        if table.name.startswith("largest difference") and not table.name.endswith(REAL):
            assert float(table.cells[0][0]) < limit, table.name


# ---- the lectures' figures


def test_w1_dot() -> None:
    assert lecture("W1")["a · b"] == 9


def test_w2_cosines() -> None:
    orange, phone, apple, and_, an = range(5)
    found = lecture("W2")["cos"].round(2)
    expected = np.eye(5)
    for i, j, value in ((apple, orange, 0.71), (apple, phone, 0.71), (and_, an, 1.0)):
        expected[i, j] = expected[j, i] = value
    assert np.array_equal(found, expected)


def test_w3_divided_by_the_sum() -> None:
    worked = lecture("W3")
    rounded = worked["rounded first"].round(3)
    assert rounded[0].tolist() == [0.585, 0.415, 0, 0] and rounded[2].tolist() == [0, 0, 0.5, 0.5]
    assert worked["by the sum"][0, 0] == pytest.approx(1 / (1 + 2**-0.5))
    assert worked["phone"][2].round(2).tolist() == [0, 0.41, 0.59]
    assert worked["new, by the sum"][2] == pytest.approx([0, 0, 2.5])
    assert "0.57 and 0.43" in worked.notes[0] and "0.585 and 0.415" in worked.notes[0]


def test_w4_softmax() -> None:
    worked = lecture("W4")
    weights = worked["by softmax"].round(2)
    assert weights[0].tolist() == [0.40, 0.30, 0.15, 0.15] and weights[2].tolist() == [0.13, 0.13, 0.37, 0.37]
    assert "0.15, 0.15, 0.5, 0.5" in worked.notes[1] and "1.3" in worked.notes[1]
    assert "0.13, 0.13, 0.37, 0.37" in worked.notes[1]


def test_w5_by_hand() -> None:
    worked = lecture("W5")
    assert worked["q₁"].tolist() == [[10, 21, 20, 19]] and worked["k₂"].tolist() == [[13, 22, 11, 16]]
    assert worked["q₁ · k₂"] == 1116 and worked["scores"][0, 1] == 1116 / 2
    assert worked["weights"].sum(1) == pytest.approx(1)
    assert worked["y₁"][0] == pytest.approx(worked["weights"][0] @ worked["v"])
    assert "[10, 18, 15, 19]" in worked.notes[0] and "995" in worked.notes[0] and "1116" in worked.notes[0]


def test_w6_shapes() -> None:
    worked = lecture("W6")
    tables = [table for each in worked.steps for table in each.tables if table.rows]
    said = {row: cells for table in tables for row, cells in zip(table.rows, table.cells, strict=True)}
    a, b, c = 4, 3, 5
    sizes = {"(a, b)": f"({a}, {b})", "(c, a)": f"({c}, {a})", "(c, b)": f"({c}, {b})", "(b, b)": f"({b}, {b})"}
    for symbol, here in said.values():
        assert here == sizes.get(str(symbol), symbol)
    assert said["both heads side by side, a word"] == ("(4, 1)", "(4, 1)")
    assert said["q of one head and word"] == ("(2, 1)", "(2, 1)")
    assert worked["A′"].sum(0) == pytest.approx(1)


def test_w7_positions() -> None:
    worked = lecture("W7")
    sin, cos = np.sin, np.cos
    expected = [[0, 1, 0, 1]] + [[sin(p), cos(p), sin(p / 100), cos(p / 100)] for p in (1, 2)]
    assert worked["PE"] == pytest.approx(np.array(expected))
    assert worked["largest difference"] < 1e-12
    table = torch.from_numpy(worked["PE"])
    x = torch.from_numpy(worked["X + PE"]) - table
    there, back = (attend(m, m, m)[0] for m in (x + table, x.flip(0) + table))
    apart = float((back - there.flip(0)).abs().max())
    assert apart > 0.1 and worked["largest difference with positions"] == pytest.approx(apart)
    assert "zeros" in worked.notes[0] and "[0, 1, 0, 1]" in worked.notes[0]


def test_w8_and_beam_search_on_the_same_table() -> None:
    worked = lecture("W8")
    assert worked["greedy"][0] == pytest.approx([0.5, 0.4, 0.4, 0.6]) and worked["P(greedy)"] == pytest.approx(0.048)
    assert worked["other"][0] == pytest.approx([0.5, 0.3, 0.6, 0.6]) and worked["P(other)"] == pytest.approx(0.054)
    beam = lecture("P12")
    best = beam["ended"][0]
    assert best[0] == "A C B <eos>" and float(best[2]) == pytest.approx(0.054)
    assert beam["candidates 3"][:, 3].tolist() == ["goes on", "goes on", "dropped", "dropped"]
    assert beam["candidates 4"][:, 3].tolist() == ["has ended", "has ended", "dropped", "dropped"]


def test_w9_the_proof_in_numbers() -> None:
    worked = lecture("W9")
    p = worked["P"]
    assert worked["P X"] == pytest.approx(p @ worked["X"])
    assert worked["A(P X)"] == pytest.approx(worked["P A(X)"])
    assert worked["largest difference with a mask"] > 0.1


def test_w10_the_adjective_moves() -> None:
    worked = lecture("W10")
    gold = dict(zip(worked.steps[1].tables[0].rows, worked["gold"].tolist(), strict=True))
    assert gold["sorcière"] == [0, 0, 1, 0] and gold["verte"] == [0, 1, 0, 0]
    assert "“green witch” becomes “sorcière verte”" in worked.result


def test_the_rules_of_training() -> None:
    peaks = lecture("P6")["peak"][0]
    assert [f"{peak:.6f}" for peak in peaks] == ["0.000699", "0.000494"]
    smoothed = lecture("P7")
    assert smoothed["y_ls"][0] == pytest.approx([0.02, 0.02, 0.92, 0.02, 0.02], abs=1e-6)
    assert smoothed["smoothed loss"] == pytest.approx(-(smoothed["y_ls"] * np.log(smoothed["p"])).sum(), abs=1e-6)


def test_masked_is_growing_and_cached_is_recomputed() -> None:
    masked = lecture("S9")
    assert masked["output"] == pytest.approx(masked["with growing keys"])
    assert np.array_equal(np.triu(masked["weights"], 1), np.zeros((4, 4)))
    cached = lecture("S18")["word"]
    assert cached[:, 3].max() < 1e-12
    assert cached[:, 2].tolist() == [8, 16, 24, 32] and cached[:, 1].tolist() == [1, 2, 3, 4]


def test_merges_end_as_the_tokenizer_cuts() -> None:
    worked = lecture("P9")
    last = [worked[f"{word}, merge by merge"][-1, 0] for word in SENTENCE.split()]
    assert " ".join(last) in worked.result
    assert worked["the, merge by merge"][0, 0] == "▁ t h e"
    assert worked["merge"][0, 1] >= worked["merge"][-1, 1]


# ---- renderings


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_every_topic_renders(topic: object) -> None:
    worked = topic.lecture()  # type: ignore[attr-defined]
    assert_only_rounding(worked, 1e-6)
    assert_renders(worked)


def assert_renders(worked: Explanation) -> None:
    lines = as_text(worked).splitlines()
    assert max(map(len, lines)) <= 100 and not any("nan" in line for line in lines)

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    tree = json.loads(worked.to_json(), parse_constant=refuse)
    assert [each["says"] for each in tree["steps"]] == [each.says for each in worked.steps]
    page = as_page(worked)
    root_ = ElementTree.fromstring(page)
    assert len(root_.findall(".//li")) == len(worked.steps)
    assert "http" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", page) and "<script" not in page
    assert ("<svg" in page) == (worked.picture is not None)


def test_a_formula_is_unicode_and_mathml() -> None:
    softmax = math(sub("α", "i"), "=", frac(of("exp", sub("e", "i")), total("j", of("exp", sub("e", "j")))))
    assert softmax.text == "αᵢ = exp(eᵢ) / (Σⱼ exp(eⱼ))"
    assert frac(math("Q", power("K", "T")), root(sub("d", "model"))).text == "(Q Kᵀ) / √d_model"
    assert power("10000", "2i/d").text == "10000^(2i/d)"
    assert frac("1", "2").mathml == "<mfrac><mn>1</mn><mn>2</mn></mfrac>"
    assert sub("y", "<t").mathml == "<msub><mi>y</mi><mi>&lt;t</mi></msub>"
    ElementTree.fromstring(softmax.mathml)


def test_numbers_that_stand_together_have_as_many_places() -> None:
    assert [number(x) for x in (0.054, 1116, 0.70710678, -0.0, 3e-9, -2.5)] == [
        *("0.054", "1116", "0.7071", "0", "3.0e-09", "−2.5")
    ]
    assert number(0.5, 0.125) == "0.500" and number(0.0, 3e-9) == "0"


def test_what_does_not_fit_is_cut_with_a_remark_and_what_is_dangerous_is_escaped() -> None:
    wide = matrix("<b>", torch.arange(600.0).view(20, 30) / 7, [f"token {i}" for i in range(20)])
    worked = Explanation("<script>", (step("`a` < b", math("a < b"), wide),), "&", ("…",))
    text, page = as_text(worked), as_page(worked)
    assert "(8 more rows and " in text and max(map(len, text.splitlines())) <= 96
    assert "<script" not in page and "(8 more rows and 6 more columns" in page and "<code>a</code> &lt; b" in page
    ElementTree.fromstring(page)
    assert len(json.loads(worked.to_json())["steps"][0]["tables"][0]["cells"][19]) == 30
    hidden = Explanation("t", (step("s", None, listing("l", ("a",), [(float("-inf"),)])),), "r")
    assert "−∞" in as_text(hidden) and json.loads(hidden.to_json())["steps"][0]["tables"][0]["cells"] == [["-inf"]]


# ---- models of one's own


@pytest.mark.parametrize("name", MODELS)
def test_every_topic_works_on_every_model_or_says_why_not(folders: dict[str, Path], name: str) -> None:
    mine = own(folders[name])
    for topic in TOPICS:
        if topic.name in LACKING.get(name, ()):
            with pytest.raises(UserError):
                topic.own(mine)
        else:
            worked = topic.own(mine)
            assert_only_rounding(worked, 1e-4)
            as_text(worked)
            worked.to_json()


@pytest.mark.parametrize(("kind", "layer", "head"), [("cross", 1, 3), ("decoder", 0, 2), ("encoder", 1, 0)])
def test_attention_is_that_of_the_model(folders: dict[str, Path], kind: str, layer: int, head: int) -> None:
    mine = own(folders["transformer"], SENTENCE, kind, layer, head)
    worked = topic_named("attention").own(mine)
    trace = getattr(mine.model.attention(mine.batch), kind)[layer]
    assert worked["weights"] == pytest.approx(trace.weights[0, head].detach().numpy(), abs=1e-6)
    assert worked["output"] == pytest.approx(trace.output[0, head].detach().numpy(), abs=1e-5)
    products = worked["q"] @ worked["k"].T
    assert worked["scores"] == pytest.approx(products / np.sqrt(16 / 4), abs=1e-5)
    assert_renders(worked)


def test_source_and_target_of_one_sequence_are_looked_at_as_one(folders: dict[str, Path]) -> None:
    mine = own(folders["concatenation"])
    worked = topic_named("attention").own(mine)
    n = mine.batch.src.shape[1] + mine.batch.tgt_in.shape[1]
    assert worked["weights"].shape == (n, n) and worked["weights"].sum(1) == pytest.approx(1, abs=1e-5)
    whole = mine.model.attention(mine.batch).cross[0].weights[0, 0].detach().numpy()
    source = mine.batch.src.shape[1]
    assert worked["weights"][source:, :source] == pytest.approx(whole, abs=1e-5)


def test_search_is_the_librarys(folders: dict[str, Path]) -> None:
    for name in ("transformer", "gpt"):
        mine = own(folders[name])
        greedy, beam = (topic_named(topic).own(mine) for topic in ("greedy", "beam"))
        assert greedy["log P"] < 0
        asked = DecodeSetup.of(mine)
        config = asked.config.model_copy(update={"n_best": asked.config.beam})
        [found] = decode(asked.model, asked.batch, config, [asked.prefix])
        assert [float(score) for score in beam["ended"][:, 3]] == pytest.approx([h.score for h in found])
        assert [float(log_prob) for log_prob in beam["ended"][:, 1]] == pytest.approx([h.log_prob for h in found])


def test_a_long_text_is_cut_where_it_is_shown_and_refused_where_it_does_not_fit(folders: dict[str, Path]) -> None:
    long = " ".join([SENTENCE] * 5)
    text = as_text(topic_named("attention").own(own(folders["transformer"], long)))
    assert "more columns not shown" in text and max(map(len, text.splitlines())) <= 100
    with pytest.raises(UserError, match="reads 63 at once"):
        topic_named("attention").own(own(folders["gpt"], " ".join([SENTENCE] * 40)))
    with pytest.raises(UserError, match="--text"):
        topic_named("cosine").own(own(folders["gpt"], "  "))


# ---- the command line


def test_command_line(folders: dict[str, Path], tmp_path: Path) -> None:
    assert [line.split()[0] for line in listed().splitlines()] == [topic.name for topic in TOPICS]
    assert regard("explain").stdout.rstrip() == listed()
    assert regard("explain", "w5").stdout.rstrip() == as_text(lecture("attention"))
    mine = ("--model", folders["transformer"], "--text", SENTENCE)
    tree = json.loads(regard("explain", "attention", *mine, "--layer", 1, "--json").stdout)
    assert "layer 1" in tree["title"]
    assert regard("explain", "W10", *mine, "--out", tmp_path / "own.png").returncode == 0
    assert (tmp_path / "own.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["atention"], "choose one of dot, cosine"),
        (["dot", "--out", "dot.png"], "no picture"),
        (["dot", "--text", "x"], "add --model DIR"),
        (["attention", "--model", "nowhere", "--text", "x"], "no model found"),
    ],
)
def test_mistakes_end_in_one_line(arguments: list[str], said: str) -> None:
    assert said in failed_in_one_line(regard("explain", *arguments))


@pytest.mark.parametrize(
    ("topic", "options", "said"),
    [
        ("attention", {"layer": 7}, "0 to 1"),
        ("heads", {"layer": 7}, "0 to 1"),
        ("heads", {"kind": "self"}, "choose one of"),
        ("attention", {"text": None}, "--text"),
    ],
)
def test_what_the_model_lacks(folders: dict[str, Path], topic: str, options: dict[str, object], said: str) -> None:
    made: Callable[..., ModelInput] = own
    with pytest.raises(UserError, match=said):
        topic_named(topic).own(made(folders["transformer"], **options))
