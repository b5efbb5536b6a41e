"""Attention records: merging, averaging, statistics, writing and reading."""

import numpy as np
import pytest

from regard.errors import UserError
from regard.models.record import AttentionRecord

SRC = ("▁the", "▁wit", "ch", "</s>")
TGT = ("▁la", "▁sor", "ci", "ère", "</s>")


def random_weights(layers: int, heads: int, rows: int, columns: int, seed: int = 0) -> np.ndarray:
    e = np.exp(np.random.default_rng(seed).normal(size=(layers, heads, rows, columns)))
    return (e / e.sum(-1, keepdims=True)).astype(np.float32)


def random_record(layers: int = 2, heads: int = 3) -> AttentionRecord:
    return AttentionRecord(
        SRC,
        TGT,
        encoder=random_weights(layers, heads, 4, 4),
        decoder=random_weights(layers, heads, 5, 5, 1),
        cross=random_weights(layers, heads, 5, 4, 2),
    )


def are_equal(left: AttentionRecord, right: AttentionRecord) -> bool:
    same_weights = all(np.array_equal(left.weights(k), right.weights(k)) for k in ("encoder", "decoder", "cross"))
    return same_weights and (left.source_tokens, left.target_tokens) == (right.source_tokens, right.target_tokens)


def test_merged_words_sum_over_attended_pieces_and_average_over_attending_ones() -> None:
    record = random_record()
    words = record.merge_words()
    assert words.source_tokens == ("the", "witch") and words.target_tokens == ("la", "sorcière")
    pieces = record.cross[1, 2]
    expected = [
        [pieces[0, 0], pieces[0, 1] + pieces[0, 2]],
        [pieces[1:4, 0].mean(), (pieces[1:4, 1] + pieces[1:4, 2]).mean()],
    ]
    np.testing.assert_allclose(words.cross[1, 2], expected, rtol=1e-6)
    with_specials = record.merge_words(specials=True)
    assert with_specials.source_tokens == ("the", "witch", "</s>")
    for kind in ("encoder", "decoder", "cross"):
        np.testing.assert_allclose(with_specials.weights(kind).sum(-1), 1.0, rtol=1e-5)


def test_selecting_and_averaging_layers_and_heads() -> None:
    record = random_record()
    assert np.array_equal(record.select(1, 2).cross, record.cross[1:2, 2:3])
    assert record.select(layer=0).encoder.shape == (1, 3, 4, 4)
    np.testing.assert_allclose(record.mean().cross[0, 0], record.cross.mean((0, 1)))
    with pytest.raises(UserError, match="no head 3; this model has 0 to 2"):
        record.select(head=3)
    with pytest.raises(UserError, match="encoder, decoder, cross"):
        record.weights("self")


def test_statistics_of_a_diagonal_a_uniform_and_a_constant_head() -> None:
    diagonal, uniform = np.eye(4, dtype=np.float32), np.full((4, 4), 0.25, dtype=np.float32)
    constant = np.zeros((4, 4), dtype=np.float32)
    constant[:, 3] = 1.0  # every token attends to </s>
    no_layers = np.zeros((0, 0, 4, 4), dtype=np.float32)
    record = AttentionRecord(SRC, SRC, np.stack([diagonal, uniform, constant])[None], no_layers, no_layers)
    statistics = record.statistics("encoder")
    np.testing.assert_allclose(statistics["entropy"], [[0, 2, 0]])
    np.testing.assert_allclose(statistics["distance"], [[0, 1.25, 1.5]])
    np.testing.assert_allclose(statistics["diagonality"], [[1, 0.625, 0.5]])
    np.testing.assert_allclose(statistics["special"], [[0.25, 0.25, 1]])
    assert record.statistics("cross")["entropy"].shape == (0, 0)


def test_a_written_record_is_read_back_unchanged() -> None:
    no_layers = AttentionRecord(SRC, TGT, *(np.zeros((0, 0, *s), np.float32) for s in ((4, 4), (5, 5), (5, 4))))
    for record in (random_record(), no_layers):
        assert are_equal(AttentionRecord.from_json(record.to_json()), record)
        assert are_equal(AttentionRecord.from_safetensors(record.to_safetensors()), record)


def test_damaged_records_are_refused() -> None:
    for read, damaged in (
        (AttentionRecord.from_json, "{}"),
        (AttentionRecord.from_json, random_record().to_json()[:-9]),
        (AttentionRecord.from_safetensors, b"\0" * 30),
        (AttentionRecord.from_safetensors, random_record().to_safetensors()[:-9]),
    ):
        with pytest.raises(UserError, match="not an attention record"):
            read(damaged)  # type: ignore[operator]


def test_a_record_of_a_long_text_with_many_heads() -> None:
    tokens = (*(f"▁w{i}" for i in range(511)), "</s>")
    weights = np.full((6, 8, 512, 512), 1 / 512, dtype=np.float32)
    long = AttentionRecord(tokens, tokens, weights, weights, weights)
    assert long.merge_words().cross.shape == (6, 8, 511, 511)
    assert are_equal(AttentionRecord.from_safetensors(long.to_safetensors()), long)
