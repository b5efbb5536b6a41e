"""The logit lens and changes of all pipelines: heads that are off, activations of another input."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from regard.errors import UserError
from regard.models.patch import PatchSite
from regard.pipelines.base import Pipeline
from regard.pipelines.captioner import Captioner
from regard.pipelines.encoded_input import Input
from regard.pipelines.what_if import Patch, WhatIf
from tests.pipelines.examples import IMAGE, PIPELINES, example_input
from tests.pipelines.test_protocol import every_pipeline

OTHER = "the green witch arrived a cat"


def other_input(pipeline: Pipeline) -> Input:
    return IMAGE[::-1].copy() if isinstance(pipeline, Captioner) else OTHER


@every_pipeline
def test_own_activations_change_nothing_and_those_of_another_input_do(name: str) -> None:
    pipeline = PIPELINES[name]()
    source = example_input(pipeline)
    plain, own = pipeline.what_if(source), pipeline.what_if(source, patch=Patch(source))
    assert plain.delta == 0 and plain.before == plain.after
    assert own.before == own.after and own.delta == pytest.approx(0, abs=1e-4)
    assert len(own.tokens) == len(own.log_probs_after) == len(own.log_probs_before)
    changed = pipeline.what_if(source, patch=Patch(other_input(pipeline)))
    assert changed.before == own.before and changed.delta != pytest.approx(0, abs=1e-4)


@every_pipeline
def test_the_lens_ends_with_the_prediction(name: str) -> None:
    pipeline = PIPELINES[name]()
    source = example_input(pipeline)
    lens = pipeline.lens(source)
    assert lens.p.shape == lens.rank.shape == (len(lens.rows), len(lens.predicted)) == (len(lens.best), len(lens.read))
    assert len(str(lens).splitlines()) == len(lens.rows) + 1
    for token, best, p, best_p, rank in zip(
        lens.predicted, lens.best[-1], lens.p[-1], lens.best_p[-1], lens.rank[-1], strict=True
    ):
        assert (rank == 1) == (token == best) == (p == pytest.approx(best_p))
    if hasattr(pipeline.traced_model, "encoder"):
        patched = pipeline.lens(source, patch=Patch(source, [PatchSite("encoder", 0)]))
        np.testing.assert_allclose(patched.p, lens.p, rtol=0, atol=1e-5)


def test_heads_that_are_off_in_a_translator() -> None:
    pipeline = PIPELINES["transformer"]()
    source = example_input(pipeline)
    heads = [("cross", 0, head) for head in range(pipeline.attention_sites()["cross"].heads)]
    off = pipeline.what_if(source, off=heads)
    assert off.delta != 0 and not np.allclose(pipeline.lens(source, off=heads).p, pipeline.lens(source).p)
    with pytest.raises(UserError, match="no layer 9 of cross attention"):
        pipeline.what_if(source, off=[("cross", 9, 0)])
    with pytest.raises(UserError, match="no position 99"):
        pipeline.what_if(source, patch=Patch(OTHER, [PatchSite("encoder", 0, position=99)]))


def test_calls_with_and_without_a_patch_at_the_same_time() -> None:
    pipeline = PIPELINES["transformer"]()
    source = example_input(pipeline)
    patches = [None, Patch(OTHER), Patch(OTHER, [PatchSite("cross", 0, 1)])]
    expected = [pipeline.what_if(source, patch=patch) for patch in patches]
    before = {key: tensor.clone() for key, tensor in pipeline.traced_model.state_dict().items()}

    def run(patch: Patch | None) -> WhatIf:
        return pipeline.what_if(source, patch=patch)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, patches * 6)) == expected * 6
    assert all((tensor == before[key]).all() for key, tensor in pipeline.traced_model.state_dict().items())
