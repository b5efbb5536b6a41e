"""Every topic on every kind of model."""

from pathlib import Path

import numpy as np
import pytest

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
IMPOSSIBLE = {
    "rnn": ("masking", "shapes", "heads", "positions", "equivariance"),
    "linear": ("equivariance",),
    "gpt": ("translation",),
    "classifier": ("translation", "masking", "greedy", "beam", "cache", "smoothing"),
}


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
    assert "ALiBi" in alibi[2].text and alibi[2].formula is None


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
