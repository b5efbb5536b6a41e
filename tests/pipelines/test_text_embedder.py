"""Texts as vectors: the summary of an encoder, or the mean of a language model's vectors."""

import numpy as np
import pytest
import torch

from regard.errors import UserError
from regard.models.encoder_decoder import EncoderDecoder
from regard.pipelines.encoded_input import EncodedInput
from regard.pipelines.generator import Generator
from regard.pipelines.text_embedder import TextEmbedder
from regard.pipelines.translator import Translator
from regard.text.vocab import EOS
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


@pytest.mark.parametrize("name", ["transformer", "rnn-additive", "classifier", "generator"])
def test_padding_in_a_batch_does_not_change_a_vector(name: str) -> None:
    pipeline = PIPELINES[name]()
    assert isinstance(pipeline, TextEmbedder)
    vectors = pipeline.embed(TEXTS)
    assert vectors.shape == (3, pipeline.embedding_size) and not np.allclose(vectors[0], vectors[2])
    for text, vector in zip(TEXTS, vectors, strict=True):
        np.testing.assert_allclose(pipeline.embed([text])[0], vector, rtol=0, atol=1e-6)
        [ids] = pipeline.src_tokenizer.encode([text])
        np.testing.assert_array_equal(pipeline.embed_ids([ids]), pipeline.embed([text]))


def test_the_vector_of_a_language_model_is_the_mean_of_what_its_tokens_are_predicted_from() -> None:
    pipeline = PIPELINES["generator"]()
    assert isinstance(pipeline, Generator)
    ids = pipeline.encode("the red cat").prefix
    batch = EncodedInput(torch.empty(1, 0, dtype=torch.int64)).batch([*ids, EOS])
    after_tokens = pipeline.model.decoder(batch.tgt_in, None).hidden[0, 1:]
    np.testing.assert_allclose(pipeline.embed(["the red cat"])[0], after_tokens.mean(0).detach(), rtol=0, atol=1e-6)
    assert not pipeline.embed([""]).any()


def test_no_texts_give_no_vectors() -> None:
    pipeline = PIPELINES["transformer"]()
    assert isinstance(pipeline, Translator)
    assert pipeline.embed([]).shape == (0, pipeline.traced_model.d_model)


def test_a_model_without_an_encoder_is_refused() -> None:
    pipeline = PIPELINES["concatenation"]()
    assert isinstance(pipeline, Translator)
    with pytest.raises(UserError, match="no encoder"):
        pipeline.embed(TEXTS)
