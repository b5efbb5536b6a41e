"""Captioners: captions do not depend on the batch, and images of the wrong kind are refused."""

import numpy as np
import pytest

from regard.errors import UserError
from regard.pipelines.captioner import Captioner
from tests.pipelines.examples import IMAGE, PIPELINES


@pytest.fixture
def captioner() -> Captioner:
    pipeline = PIPELINES["captioner"]()
    assert isinstance(pipeline, Captioner)
    return pipeline


def test_captions_are_in_the_order_of_the_images(captioner: Captioner, monkeypatch: pytest.MonkeyPatch) -> None:
    images = [np.roll(IMAGE, n, axis=0) for n in range(5)]
    together = captioner.caption(images, attention=True)
    monkeypatch.setattr("regard.pipelines.captioner._BATCH", 2)
    in_batches = captioner.caption(images, attention=True)
    assert [caption.text for caption in in_batches] == [caption.text for caption in together]
    for image, caption in zip(images, together, strict=True):
        [alone] = captioner.caption([image], attention=True)
        assert (alone.text, alone.tokens) == (caption.text, caption.tokens)
        assert alone.regions is not None and caption.regions is not None
        np.testing.assert_allclose(alone.regions, caption.regions, rtol=0, atol=1e-5)
        np.testing.assert_allclose(caption.regions.sum((-2, -1)), 1.0, rtol=0, atol=1e-5)


def test_an_image_of_another_size_is_refused(captioner: Captioner) -> None:
    with pytest.raises(UserError, match=r"shape \(9, 8, 3\); this model reads \(8, 8, 3\)"):
        captioner.caption([np.zeros((9, 8, 3), dtype=np.uint8)])


def test_ids_of_a_text_are_refused(captioner: Captioner) -> None:
    with pytest.raises(UserError, match="reads images, not text"):
        captioner.encode_ids([7, 8])


def test_an_array_is_its_own_thumbnail(captioner: Captioner) -> None:
    np.testing.assert_array_equal(captioner.thumbnail(IMAGE, 160), IMAGE)
