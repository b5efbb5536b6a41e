from collections.abc import Sequence
from itertools import islice

import numpy as np
import pytest
import torch

from regard.data.batch import Batch
from regard.data.batch_order import BatchConfig, Batches, StreamPosition
from regard.data.corpus_report import CorpusReport
from regard.data.text_batches import MaskedBatches, TextBatches, windows
from regard.data.text_store import TextStore
from regard.errors import UserError
from regard.text.vocab import BOS, EOS, MASK, PAD, SPECIALS

FIRST = len(SPECIALS)


def numbered(n: int) -> TextStore:
    """A text in which every id occurs once, so that tokens can be told apart."""
    return TextStore(np.arange(FIRST, FIRST + n, dtype=np.uint16), n, FIRST + n, CorpusReport(), "test")


def config(tokens: int = 60, workers: int = 0) -> BatchConfig:
    return BatchConfig(tokens=tokens, workers=workers)


def epoch_of(batches: Batches, epoch: int) -> list[Batch]:
    return [batches.batch(epoch, i) for i in range(len(batches.plan(epoch)))]


def same(left: Sequence[tuple[StreamPosition, Batch]], right: Sequence[tuple[StreamPosition, Batch]]) -> bool:
    return all(
        a == b and all(torch.equal(s, t) for s, t in zip(x.tensors(), y.tensors(), strict=True))
        for (a, x), (b, y) in zip(left, right, strict=True)
    )


# ---- training batches


def test_the_input_is_the_block_shifted_by_one() -> None:
    for batch in epoch_of(TextBatches(numbered(200), config(), 1, context=10), 0):
        assert batch.src.shape == (6, 0) and batch.src.dtype == torch.int64
        assert batch.tgt_in.shape == batch.tgt_out.shape == (6, 10)
        assert (batch.tgt_in[:, 0] == BOS).all()
        assert torch.equal(batch.tgt_in[:, 1:], batch.tgt_out[:, :-1])
        assert (batch.tgt_out.diff(dim=1) == 1).all(), "a block is contiguous"


@pytest.mark.parametrize("kind", [TextBatches, MaskedBatches])
@pytest.mark.parametrize(("n", "context"), [(1000, 10), (999, 7), (61, 10), (60, 10), (25, 10), (19, 10), (10, 10)])
def test_an_epoch_has_nearly_all_tokens_and_none_twice(
    kind: type[TextBatches] | type[MaskedBatches], n: int, context: int
) -> None:
    batches = kind(numbered(n), config(), 1, context)
    assert batches.size == n // context
    shapes, offsets = set(), set()
    for epoch in range(8):
        starts = np.concatenate(batches.plan(epoch))
        tokens = np.concatenate([batches.blocks(rows).ravel() for rows in batches.plan(epoch)])
        assert len(set(tokens)) == len(tokens)
        shape = (len(batches.plan(epoch)[0]), context)
        assert n - len(tokens) < shape[0] * context + context
        shapes |= {tuple(rows.shape) for rows in batches.plan(epoch)}
        offsets.add(int(starts[0]) % context)
    assert len(shapes) == 1, "one shape in all epochs"
    assert len(offsets) > 1 or n == context, "epochs start at different offsets"


def test_blocks_are_shuffled_by_seed_and_epoch() -> None:
    batches = TextBatches(numbered(1000), config(), 1, context=10)
    orders = [np.concatenate(TextBatches(numbered(1000), config(), s, 10).plan(e)) for s, e in [(1, 0), (1, 1), (2, 0)]]
    assert np.array_equal(np.concatenate(batches.plan(0)), orders[0])
    places = [np.argsort(order) for order in orders]
    assert not any(np.array_equal(a[:90], b[:90]) for a, b in [(places[0], places[1]), (places[0], places[2])])
    assert not np.array_equal(places[0], np.arange(len(places[0])))


@pytest.mark.parametrize("kind", [TextBatches, MaskedBatches])
def test_any_start_and_any_number_of_workers_give_the_same_batches(
    kind: type[TextBatches] | type[MaskedBatches],
) -> None:
    def take(start: StreamPosition, n: int, workers: int = 0) -> list[tuple[StreamPosition, Batch]]:
        return list(islice(kind(numbered(1000), config(workers=workers), 1, context=10).stream(start), n))

    whole = take(StreamPosition(0, 0), 60)
    assert whole[-1][0].epoch > 2
    for workers in (1, 2, 5):
        assert same(take(StreamPosition(0, 0), 60, workers), whole)
    for cut in (1, 16, 41):
        assert same(take(whole[cut - 1][0], 15, workers=2), whole[cut : cut + 15])


def test_a_text_shorter_than_a_block_is_refused_with_what_to_do() -> None:
    with pytest.raises(UserError, match="lower the context"):
        TextBatches(numbered(9), config(), 1, context=10)
    with pytest.raises(UserError, match="1 or more"):
        TextBatches(numbered(9), config(), 1, context=0)
    assert TextBatches(numbered(50), config(tokens=5), 1, context=10).batch(0, 0).size == 1


def test_masking() -> None:
    n = 60_000
    batches = MaskedBatches(numbered(n), config(tokens=6000), 1, context=100)
    counts = dict.fromkeys(("places", "chosen", "mask", "same", "random"), 0)
    for index, batch in enumerate(epoch_of(batches, 0)):
        assert batch.src.shape == batch.tgt_out.shape == (60, 100) and batch.tgt_in.shape == (60, 0)
        original = torch.from_numpy(batches.blocks(batches.plan(0)[index]))
        chosen = batch.tgt_out != PAD
        assert torch.equal(batch.tgt_out[chosen], original[chosen])
        assert torch.equal(batch.src[~chosen], original[~chosen]), "tokens that are not predicted are unchanged"
        inputs = batch.src[chosen]
        random = (inputs != MASK) & (inputs != original[chosen])
        assert (inputs[random] >= FIRST).all() and (inputs < FIRST + n).all()
        counts["places"] += chosen.numel()
        counts["chosen"] += int(chosen.sum())
        counts["mask"] += int((inputs == MASK).sum())
        counts["same"] += int((inputs == original[chosen]).sum())
        counts["random"] += int(random.sum())
    assert abs(counts["chosen"] / counts["places"] - 0.15) < 0.01
    assert abs(counts["mask"] / counts["chosen"] - 0.8) < 0.02
    assert abs(counts["same"] / counts["chosen"] - 0.1) < 0.015
    assert abs(counts["random"] / counts["chosen"] - 0.1) < 0.015


def test_masks_depend_on_seed_epoch_and_batch_and_spare_specials() -> None:
    ids = np.tile(np.array([EOS, 7, EOS, EOS], dtype=np.uint16), 100)
    store = TextStore(ids, 400, 20, CorpusReport(), "test")

    def chosen(seed: int, epoch: int, index: int) -> torch.Tensor:
        batch = MaskedBatches(store, config(tokens=80), seed, context=40).batch(epoch, index)
        assert (batch.src[batch.tgt_out == PAD] != MASK).all()
        assert set(batch.tgt_out.unique().tolist()) == {PAD, 7}, "EOS is never predicted"
        assert (batch.tgt_out != PAD).any(dim=1).all(), "every block has a token to predict"
        return batch.tgt_out

    assert torch.equal(chosen(1, 0, 0), chosen(1, 0, 0))
    for other in [(2, 0, 0), (1, 1, 0), (1, 0, 1)]:
        assert not torch.equal(chosen(1, 0, 0), chosen(*other))


# ---- evaluation


@pytest.mark.parametrize("n", [0, 1, 9, 10, 11, 25, 40])
@pytest.mark.parametrize(("context", "stride"), [(10, 10), (10, 5), (10, 3), (10, 1), (1, 1), (40, 7)])
def test_windows_predict_every_token_once_with_enough_context(n: int, context: int, stride: int) -> None:
    ids = numbered(n).ids
    scored = []
    for number, (tgt_in, tgt_out) in enumerate(windows(ids, context, stride)):
        assert tgt_in.shape == tgt_out.shape == (context,) and tgt_in.dtype == np.int64
        assert tgt_in[0] == BOS
        [places] = np.nonzero(tgt_out != PAD)
        assert len(places), "every window has a target"
        assert number == 0 or places[0] >= context - stride
        assert all(tgt_in[i] == tgt_out[i] - 1 for i in places if i), "the input is the previous token"
        scored += tgt_out[places].tolist()
    assert scored == ids.tolist()


@pytest.mark.parametrize("stride", [0, 11])
def test_windows_that_would_leave_gaps_are_refused(stride: int) -> None:
    with pytest.raises(UserError, match="choose 1 to 10"):
        next(windows(np.arange(5), 10, stride))
