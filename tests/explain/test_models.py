"""Every topic on every kind of model."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.errors import UserError
from regard.explain.decode_setup import DecodeSetup
from regard.explain.explanation import Explanation
from regard.explain.model_input import ModelInput
from regard.explain.render_text import render_text
from regard.explain.topics import TOPICS, find_topic
from regard.search.decode import decode
from tests.explain.checks import assert_differences_are_rounding_errors, assert_renders
from tests.explain.conftest import MODELS

SENTENCE = "the green witch arrived"
# Topics that a model cannot be used for; each is refused with a message.
NEEDS_STACK = ("masking", "shapes", "heads", "positions", "equivariance", "linear-maps", "quadratic-form", "offsets")
NEEDS_ATTENTION = ("attention", "lookup", "translation")
NEEDS_OUTPUT = ("translation", "masking", "greedy", "beam", "cache", "smoothing", "nll", "seq2seq-step")
IMPOSSIBLE = {
    "transformer": ("seq2seq-step",),
    "rotary": ("seq2seq-step", "offsets", "quadratic-form"),
    "alibi": ("seq2seq-step", "offsets"),
    "linear": ("seq2seq-step", "equivariance", "quadratic-form"),
    "concatenation": ("seq2seq-step",),
    "free widths": ("seq2seq-step",),
    "hardmax": ("seq2seq-step",),
    "no attention": (*NEEDS_STACK, *NEEDS_ATTENTION, "block"),
    "rnn-lm": (*NEEDS_STACK, *NEEDS_ATTENTION, "block"),
    "gpt": ("translation", "seq2seq-step", "offsets"),
    "classifier": NEEDS_OUTPUT,
    "pooling": NEEDS_OUTPUT,
} | dict.fromkeys(("rnn", "location", "location, L_max", "additive", "bilinear", "local"), (*NEEDS_STACK, "block"))


def load(
    folder: Path, text: str | None = SENTENCE, kind: str | None = None, layer: int = 0, head: int = 0
) -> ModelInput:
    return ModelInput.load(folder, text, kind, layer, head)


def explain(name: str, model_input: ModelInput) -> Explanation:
    return find_topic(name).explain_model(model_input)


@pytest.mark.parametrize("name", MODELS)
def test_every_topic_is_explained_or_refused(model_folders: dict[str, Path], name: str) -> None:
    model_input = load(model_folders[name])
    for topic in TOPICS:
        if topic.name in IMPOSSIBLE.get(name, ()):
            with pytest.raises(UserError):
                topic.explain_model(model_input)
        else:
            explanation = topic.explain_model(model_input)
            assert_differences_are_rounding_errors(explanation, 1e-4)
            render_text(explanation)
            explanation.to_json()


@pytest.mark.parametrize(("kind", "layer", "head"), [("cross", 1, 3), ("decoder", 0, 2), ("encoder", 1, 0)])
def test_attention_is_that_of_the_model(model_folders: dict[str, Path], kind: str, layer: int, head: int) -> None:
    model_input = load(model_folders["transformer"], SENTENCE, kind, layer, head)
    explanation = explain("attention", model_input)
    trace = getattr(model_input.model.trace_attention(model_input.batch), kind)[layer]
    assert explanation["weights"] == pytest.approx(trace.weights[0, head].detach().numpy(), abs=1e-6)
    assert explanation["output"] == pytest.approx(trace.output[0, head].detach().numpy(), abs=1e-5)
    products = explanation["q"] @ explanation["k"].T
    assert explanation["scores"] == pytest.approx(products / np.sqrt(16 / 4), abs=1e-5)
    assert_renders(explanation)


def test_a_decoder_only_translator_attends_over_source_and_target_as_one_sequence(
    model_folders: dict[str, Path],
) -> None:
    model_input = load(model_folders["concatenation"])
    explanation = explain("attention", model_input)
    n_source = model_input.batch.src.shape[1]
    n = n_source + model_input.batch.tgt_in.shape[1]
    assert explanation["weights"].shape == (n, n) and explanation["weights"].sum(1) == pytest.approx(1, abs=1e-5)
    cross = model_input.model.trace_attention(model_input.batch).cross[0].weights[0, 0].detach().numpy()
    assert explanation["weights"][n_source:, :n_source] == pytest.approx(cross, abs=1e-5)


def test_scores_and_weights_are_described_as_the_model_computes_them(model_folders: dict[str, Path]) -> None:
    def formulas(name: str, topic: str) -> list[str | None]:
        steps = explain(topic, load(model_folders[name])).steps
        return [step.formula.text if step.formula else None for step in steps]

    scaled, softmax = "E = (Q Kᵀ) / √dₖ", "αᵢ = exp(eᵢ) / (Σⱼ exp(eⱼ))"
    assert formulas("transformer", "attention")[2:4] == [scaled, softmax]
    assert formulas("rnn", "attention")[2:4] == ["E = Q Kᵀ", softmax]
    softmax_of_a_head = formulas("transformer", "heads")[0]
    assert softmax_of_a_head is not None and "softmax" in softmax_of_a_head
    assert formulas("linear", "heads")[0] is None
    linear = explain("attention", load(model_folders["linear"], kind="encoder")).steps
    assert linear[3].formula is not None and linear[3].formula.text == "αᵢ = eᵢ / (Σⱼ eⱼ)"
    alibi = explain("attention", load(model_folders["alibi"], kind="encoder")).steps
    assert "ALiBi" in alibi[2].text and alibi[2].formula is not None and "mₕ" in alibi[2].formula.text


@pytest.mark.parametrize(
    ("name", "score", "normalised"),
    [
        ("bilinear", "eᵢⱼ = qᵢᵀ W kⱼ", "αᵢ = 1 if i = argmaxⱼ eⱼ, otherwise 0"),
        ("additive", "eᵢⱼ = vᵀ tanh(W_q qᵢ + Wₖ kⱼ + b)", "αᵢ = exp(eᵢ) / (Σⱼ exp(eⱼ))"),
        ("location", "eᵢⱼ = (W qᵢ + b)ⱼ", "αᵢ = exp(eᵢ) / (Σⱼ exp(eⱼ))"),
        ("location, L_max", "eᵢⱼ = log(softmax(W qᵢ + b)ⱼ)", "αᵢ = exp(eᵢ)"),
        ("local", "eᵢⱼ = log(softmax(sᵢ)ⱼ) − (j − pᵢ)² / (2 σ²)", "αᵢ = exp(eᵢ)"),
    ],
)
def test_every_score_shows_its_formula(model_folders: dict[str, Path], name: str, score: str, normalised: str) -> None:
    steps = explain("attention", load(model_folders[name])).steps
    by_table = {table.name: step.formula for step in steps for table in step.tables}
    scores, weights = by_table["scores"], by_table["weights"]
    assert scores is not None and weights is not None
    assert (scores.text, weights.text) == (score, normalised)


def test_rnn_decoders_show_their_own_equations(model_folders: dict[str, Path]) -> None:
    for name, query, use in (
        ("rnn", "qₜ = hₜ = RNN(xₜ, hₜ₋₁)", "softmax(W [ cₜ ; hₜ ])"),
        ("location", "qₜ = [ hₜ₋₁ ; xₜ ]", "z = ReLU(W_c [ xₜ ; cₜ ] + b_c)"),
        ("additive", "qₜ = [ hₜ₋₁ ; xₜ ]", "z = ReLU(W_c [ xₜ ; cₜ ] + b_c)"),
    ):
        steps = explain("attention", load(model_folders[name])).steps
        formulas = [step.formula.text for step in steps if step.formula]
        assert formulas[0] == query and use in formulas[-1], name


@pytest.mark.parametrize("name", ["rnn", "location", "location, L_max", "additive", "local", "no attention", "rnn-lm"])
def test_a_step_of_an_rnn_ends_in_the_models_own_probability(model_folders: dict[str, Path], name: str) -> None:
    model_input = replace(load(model_folders[name]), step=2)
    explanation = explain("seq2seq-step", model_input)
    with torch.no_grad():
        log_p = model_input.model(model_input.batch)[0].log_softmax(-1)
    own = log_p[2, model_input.batch.tgt_out[0, 2]]
    assert explanation["−log p"][0, 0] == pytest.approx(-float(own), abs=1e-5)
    nll = explain("nll", model_input)
    assert explanation["sum of −log p"] == pytest.approx(nll["NLL"], abs=1e-5)
    has_context = any(table.name == "cₜ" for step in explanation.steps for table in step.tables)
    assert has_context == (name not in ("no attention", "rnn-lm"))


def test_a_reference_takes_the_place_of_the_models_output(model_folders: dict[str, Path]) -> None:
    model_input = replace(load(model_folders["rnn"]), target="la sorcière")
    explanation = explain("nll", model_input)
    assert "la sorcière" in explanation.title and explanation["reads"][-1, 0] == "</s>"
    with pytest.raises(UserError, match=r"no step 99; this sentence has 0 to"):
        explain("seq2seq-step", replace(model_input, step=99))
    with pytest.raises(UserError, match="regard explain block"):
        explain("seq2seq-step", load(model_folders["transformer"]))


def test_pooling_shows_the_weights_that_a_classifier_has_learned(model_folders: dict[str, Path]) -> None:
    model_input = load(model_folders["pooling"])
    torch.nn.init.normal_(model_input.model.pooling.key)
    explanation = explain("pooling", model_input)
    assert explanation["α"].sum() == pytest.approx(1, abs=1e-6) and explanation["α"].std() > 1e-3
    expected = model_input.model.embed(model_input.batch.src).detach().numpy()
    assert explanation["y"] == pytest.approx(expected, abs=1e-5)
    mean = explain("pooling", load(model_folders["classifier"]))
    assert np.unique(mean["α"].round(6)).size == 1


def test_a_head_is_a_quadratic_form_with_free_widths_and_with_the_bilinear_score(
    model_folders: dict[str, Path],
) -> None:
    for name, rows in (("free widths", 17), ("hardmax", 16)):
        explanation = explain("quadratic-form", load(model_folders[name], layer=1, head=3))
        assert explanation["B"].shape == (rows, rows)
        assert np.linalg.matrix_rank(explanation["B"], tol=1e-6) == (6 if name == "free widths" else 4)
        own = explain("attention", load(model_folders[name], kind="encoder", layer=1, head=3))
        assert explanation["scores"] == pytest.approx(own["scores"], abs=1e-5)


def test_block_works_through_cross_attention_too(model_folders: dict[str, Path]) -> None:
    for name in ("transformer", "free widths", "linear"):
        explanation = explain("block", load(model_folders[name], kind="decoder", layer=1))
        assert explanation["largest difference from the model's own layer"] < 1e-5
        assert any("cross-attention" in table.name for step in explanation.steps for table in step.tables)
        assert ("post-LN" in explanation.title) == (name == "free widths")


def test_search_topics_use_the_librarys_search(model_folders: dict[str, Path]) -> None:
    for name in ("transformer", "gpt"):
        model_input = load(model_folders[name])
        greedy, beam = (explain(topic, model_input) for topic in ("greedy", "beam"))
        assert greedy["log P"] < 0
        setup = DecodeSetup.of_model(model_input)
        config = setup.config.model_copy(update={"n_best": setup.config.beam})
        [hypotheses] = decode(setup.model, setup.batch, config, [setup.prefix])
        assert [float(score) for score in beam["finished"][:, 3]] == pytest.approx([h.score for h in hypotheses])
        assert [float(p) for p in beam["finished"][:, 1]] == pytest.approx([h.log_prob for h in hypotheses])


def test_a_long_text_is_cut_in_tables_and_refused_if_the_model_cannot_read_it(model_folders: dict[str, Path]) -> None:
    long = " ".join([SENTENCE] * 5)
    text = render_text(explain("attention", load(model_folders["transformer"], long)))
    assert "more columns not shown" in text and max(map(len, text.splitlines())) <= 100
    with pytest.raises(UserError, match="reads 63 at once"):
        explain("attention", load(model_folders["gpt"], " ".join([SENTENCE] * 40)))
    with pytest.raises(UserError, match="--text"):
        explain("cosine", load(model_folders["gpt"], "  "))


@pytest.mark.parametrize(
    ("topic", "text", "kind", "layer", "message"),
    [
        ("attention", SENTENCE, None, 7, "0 to 1"),
        ("heads", SENTENCE, None, 7, "0 to 1"),
        ("heads", SENTENCE, "self", 0, "choose one of"),
        ("attention", None, None, 0, "--text"),
    ],
)
def test_missing_layers_kinds_and_texts_are_refused(
    model_folders: dict[str, Path], topic: str, text: str | None, kind: str | None, layer: int, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        explain(topic, load(model_folders["transformer"], text, kind, layer))


def test_an_rnn_has_no_heads_to_show(model_folders: dict[str, Path]) -> None:
    with pytest.raises(UserError, match="cross attention of this model has no heads"):
        explain("heads", load(model_folders["rnn"], kind="cross"))
