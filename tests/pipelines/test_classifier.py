"""Classifiers: labels and vectors do not depend on the batch, and long texts are cut."""

import numpy as np
import pytest
import torch

from regard import models
from regard.errors import UserError
from regard.pipelines.classifier import Classifier
from regard.text.tokenizer import TokenizerPair
from tests.pipelines.examples import CPU, MAX_LEN, PIPELINES, STACK, WORDS
from tests.pipelines.examples import classifier as classifier_of

TEXTS = ["a cat", "the witch sleeps", "", "the red cat sees a green witch", "red"]


@pytest.fixture(params=["classifier", "learned positions, classifier", "attention pooling, classifier"])
def classifier(request: pytest.FixtureRequest) -> Classifier:
    pipeline = PIPELINES[request.param]()
    assert isinstance(pipeline, Classifier)
    return pipeline


def test_labels_are_in_the_order_of_the_texts(classifier: Classifier) -> None:
    together = classifier.classify(TEXTS)
    assert [result.text for result in together] == TEXTS
    for text, result in zip(TEXTS, together, strict=True):
        [alone] = classifier.classify([text])
        assert alone.label == result.label == max(result.probabilities, key=lambda label: result.probabilities[label])
        assert alone.probabilities == pytest.approx(result.probabilities, abs=1e-5)
        assert sum(result.probabilities.values()) == pytest.approx(1.0)
        assert list(result.probabilities) == classifier.labels == ["bad", "good"]


def test_vectors_are_in_the_order_of_the_texts(classifier: Classifier) -> None:
    together = classifier.embed(TEXTS)
    assert together.shape == (len(TEXTS), 8)
    for text, vector in zip(TEXTS, together, strict=True):
        np.testing.assert_allclose(classifier.embed([text])[0], vector, rtol=0, atol=1e-5)


def test_a_batch_that_does_not_fit_is_split_and_gives_the_same(
    classifier: Classifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, embed = classifier.classify(TEXTS), classifier.model.embed

    def limited(src: torch.Tensor) -> torch.Tensor:
        if len(src) > 2:
            raise torch.OutOfMemoryError
        return embed(src)

    monkeypatch.setattr(classifier.model, "embed", limited)
    for result, whole in zip(classifier.classify(TEXTS), expected, strict=True):
        assert (result.text, result.label) == (whole.text, whole.label)
        assert result.probabilities == pytest.approx(whole.probabilities, abs=1e-5)


def test_a_long_text_is_cut_to_the_learned_positions() -> None:
    classifier = PIPELINES["learned positions, classifier"]()
    assert isinstance(classifier, Classifier)
    words = ["cat", "witch"] * MAX_LEN
    cut = " ".join(words[: MAX_LEN - 1])
    np.testing.assert_array_equal(classifier.embed([" ".join(words)]), classifier.embed([cut]))
    assert classifier.encode(" ".join(words)).src_ids == classifier.encode(cut).src_ids


def test_pooling_by_attention_starts_as_the_mean_and_its_weights_are_recorded_for_the_label() -> None:
    start, pooling = classifier_of(STACK, pooling="attention"), PIPELINES["attention pooling, classifier"]()
    assert isinstance(pooling, Classifier)
    for text, vector in zip(TEXTS, start.embed(TEXTS), strict=True):
        mean = start.model.encoder(start.encode(text).src).values[0].mean(0)
        np.testing.assert_allclose(vector, mean.detach().numpy(), rtol=0, atol=1e-6)
    record, values = pooling.record("the red cat"), pooling.model.encoder(pooling.encode("the red cat").src).values
    assert record.target_tokens == (pooling.classify(["the red cat"])[0].label,)
    assert record.cross.shape == (1, 1, 1, 4)
    expected = torch.from_numpy(record.cross[0, 0]) @ values[0]
    np.testing.assert_allclose(pooling.embed(["the red cat"]), expected.detach().numpy(), rtol=0, atol=1e-6)


def test_pooling_by_attention_is_for_labels() -> None:
    with pytest.raises(UserError, match="head=label"):
        models.build({"kind": "encoder", "encoder": STACK, "pooling": "attention"}, WORDS.size)


def test_a_model_of_masked_tokens_has_vectors_but_no_labels() -> None:
    model = models.build({"kind": "encoder", "encoder": STACK}, WORDS.size).eval()
    classifier = Classifier(model, TokenizerPair(WORDS, WORDS), CPU)
    assert classifier.embed(["a cat"]).shape == (1, 8)
    assert classifier.output_text("a cat", []) == "a cat"
    with pytest.raises(UserError, match="fills in masked tokens"):
        classifier.classify(["a cat"])
