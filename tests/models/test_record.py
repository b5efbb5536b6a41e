"""Attention as data: merged, averaged, measured, written and read."""

import numpy as np
import pytest

from regard.errors import UserError
from regard.models.record import AttentionRecord

SRC = ("▁the", "▁wit", "ch", "</s>")
TGT = ("▁la", "▁sor", "ci", "ère", "</s>")


def random_weights(layers: int, heads: int, rows: int, columns: int, seed: int = 0) -> np.ndarray:
    e = np.exp(np.random.default_rng(seed).normal(size=(layers, heads, rows, columns)))
    return (e / e.sum(-1, keepdims=True)).astype(np.float32)


def record(layers: int = 2, heads: int = 3) -> AttentionRecord:
    return AttentionRecord(
        SRC,
        TGT,
        encoder=random_weights(layers, heads, 4, 4),
        decoder=random_weights(layers, heads, 5, 5, 1),
        cross=random_weights(layers, heads, 5, 4, 2),
    )


def same(left: AttentionRecord, right: AttentionRecord) -> bool:
    arrays = all(np.array_equal(left.weights(k), right.weights(k)) for k in ("encoder", "decoder", "cross"))
    return arrays and (left.source_tokens, left.target_tokens) == (right.source_tokens, right.target_tokens)


def test_words_are_sums_over_their_pieces_and_means_over_those_that_look() -> None:
    given = record()
    words = given.merge_words()
    assert words.source_tokens == ("the", "witch") and words.target_tokens == ("la", "sorcière")
    pieces = given.cross[1, 2]
    expected = [
        [pieces[0, 0], pieces[0, 1] + pieces[0, 2]],
        [pieces[1:4, 0].mean(), (pieces[1:4, 1] + pieces[1:4, 2]).mean()],
    ]
    np.testing.assert_allclose(words.cross[1, 2], expected, rtol=1e-6)
    kept = given.merge_words(specials=True)
    assert kept.source_tokens == ("the", "witch", "</s>")
    for kind in ("encoder", "decoder", "cross"):
        np.testing.assert_allclose(kept.weights(kind).sum(-1), 1.0, rtol=1e-5)


def test_layers_and_heads_are_chosen_and_averaged() -> None:
    given = record()
    assert np.array_equal(given.select(1, 2).cross, given.cross[1:2, 2:3])
    assert given.select(layer=0).encoder.shape == (1, 3, 4, 4)
    np.testing.assert_allclose(given.mean().cross[0, 0], given.cross.mean((0, 1)))
    with pytest.raises(UserError, match="no head 3; this model has 0 to 2"):
        given.select(head=3)
    with pytest.raises(UserError, match="encoder, decoder, cross"):
        given.weights("self")


def test_statistics_of_heads_that_are_known() -> None:
    sharp, flat = np.eye(4, dtype=np.float32), np.full((4, 4), 0.25, dtype=np.float32)
    first = np.zeros((4, 4), dtype=np.float32)
    first[:, 3] = 1.0  # everything on </s>
    nothing = np.zeros((0, 0, 4, 4), dtype=np.float32)
    given = AttentionRecord(SRC, SRC, np.stack([sharp, flat, first])[None], nothing, nothing)
    found = given.statistics("encoder")
    np.testing.assert_allclose(found["entropy"], [[0, 2, 0]])
    np.testing.assert_allclose(found["distance"], [[0, 1.25, 1.5]])
    np.testing.assert_allclose(found["diagonality"], [[1, 0.625, 0.5]])
    np.testing.assert_allclose(found["special"], [[0.25, 0.25, 1]])
    assert given.statistics("cross")["entropy"].shape == (0, 0)


def test_written_and_read_again() -> None:
    without = AttentionRecord(SRC, TGT, *(np.zeros((0, 0, *s), np.float32) for s in ((4, 4), (5, 5), (5, 4))))
    for given in (record(), without):
        assert same(AttentionRecord.from_json(given.to_json()), given)
        assert same(AttentionRecord.from_safetensors(given.to_safetensors()), given)
    for read, damaged in (
        (AttentionRecord.from_json, "{}"),
        (AttentionRecord.from_json, record().to_json()[:-9]),
        (AttentionRecord.from_safetensors, b"\0" * 30),
        (AttentionRecord.from_safetensors, record().to_safetensors()[:-9]),
    ):
        with pytest.raises(UserError, match="not an attention record"):
            read(damaged)  # type: ignore[operator]


def test_long_texts_with_many_heads() -> None:
    tokens = (*(f"▁w{i}" for i in range(511)), "</s>")
    weights = np.full((6, 8, 512, 512), 1 / 512, dtype=np.float32)
    long = AttentionRecord(tokens, tokens, weights, weights, weights)
    assert long.merge_words().cross.shape == (6, 8, 511, 511)
    assert same(AttentionRecord.from_safetensors(long.to_safetensors()), long)
