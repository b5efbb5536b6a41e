"""Texts as vectors, by translators: the summary that the decoder of a model without attention starts from."""

import numpy as np
import pytest

from regard.errors import UserError
from regard.models.encoder_decoder import EncoderDecoder
from regard.pipelines.translator import Translator
from tests.pipelines.examples import PIPELINES

TEXTS = ["a cat", "", "the red cat sees a green witch"]


@pytest.mark.parametrize("name", ["transformer", "rnn-additive", "ensemble"])
def test_vectors_are_the_summaries_of_the_encoder(name: str) -> None:
    pipeline = PIPELINES[name]()
    assert isinstance(pipeline, Translator) and isinstance(pipeline.traced_model, EncoderDecoder)
    vectors = pipeline.embed(TEXTS)
    for text, vector in zip(TEXTS, vectors, strict=True):
        summary = pipeline.traced_model.encoder(pipeline.encode(text).src).summary[0]
        np.testing.assert_allclose(vector, summary.detach().numpy(), rtol=0, atol=1e-5)


def test_no_texts_give_no_vectors() -> None:
    pipeline = PIPELINES["transformer"]()
    assert isinstance(pipeline, Translator)
    assert pipeline.embed([]).shape == (0, pipeline.traced_model.d_model)


def test_a_model_without_an_encoder_is_refused() -> None:
    pipeline = PIPELINES["concatenation"]()
    assert isinstance(pipeline, Translator)
    with pytest.raises(UserError, match="no encoder"):
        pipeline.embed(TEXTS)
