"""Arguments of the wrong type are mistakes of the user, in every pipeline."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import regard
from regard.errors import UserError
from regard.pipelines.base import device_named
from tests.pipelines.examples import BUNDLES, IMAGE, PIPELINES, example_input

CALLS: list[tuple[str, Callable[[Any], object], str]] = [
    ("transformer", lambda p: p.translate(None), "translate takes a list of texts"),
    ("transformer", lambda p: p.translate("a cat"), r"write translate\(\[text\]\)"),
    ("transformer", lambda p: p.translate(b"a cat"), "translate takes a list of texts"),
    ("transformer", lambda p: p.translate(["a", None]), r"translate: texts\[1\] is of type NoneType, not str"),
    ("transformer", lambda p: p.translate([b"a"]), r"texts\[0\] is of type bytes"),
    ("transformer", lambda p: p.translate([["a"]]), r"texts\[0\] is of type list"),
    ("transformer", lambda p: p.translate(["a"], prefixes=[None]), r"texts\[0\] is of type NoneType"),
    ("transformer", lambda p: p.translate(["a"], prefixes=["a", "b"]), "1 texts but 2 prefixes"),
    ("transformer", lambda p: p.translate(["a"], beam="wide"), "beam must be a whole number"),
    ("transformer", lambda p: p.translate(["a"], beam=None), "beam must be a whole number"),
    ("transformer", lambda p: p.translate(["a"], beam=10**5000), "beam must be at most 1,000"),
    ("transformer", lambda p: p.translate(["a"], sampling=3), "sampling must be a mapping"),
    ("transformer", lambda p: list(p.stream([1])), r"texts\[0\] is of type int"),
    ("transformer", lambda p: list(p.stream("a cat")), "stream takes a list of texts"),
    ("transformer", lambda p: list(p.stream(None)), "stream takes a list of texts"),
    ("classifier", lambda p: p.classify(None), "classify takes a list of texts"),
    ("classifier", lambda p: p.classify("a"), "classify takes a list of texts"),
    ("classifier", lambda p: p.classify([None]), r"texts\[0\] is of type NoneType"),
    ("classifier", lambda p: p.embed(None), "embed takes a list of texts"),
    ("classifier", lambda p: p.embed([3]), r"embed: texts\[0\] is of type int"),
    ("generator", lambda p: p.generate(None), "the prompt must be a text"),
    ("generator", lambda p: p.generate("a", max_new_tokens=-1), "max_new_tokens must be a whole number of at least 0"),
    ("generator", lambda p: p.generate("a", max_new_tokens=None), "max_new_tokens must be"),
    ("generator", lambda p: p.generate("a", max_new_tokens=1.5), "max_new_tokens must be"),
    ("generator", lambda p: p.generate("a", temperature=1e-320), "temperature must be at least 0.001"),
    ("generator", lambda p: p.generate("a", temprature=1), "did you mean 'temperature'"),
    ("generator", lambda p: p.beam(None), "the prompt must be a text"),
    ("generator", lambda p: p.beam("a", max_new_tokens=-5), "max_new_tokens must be"),
    ("generator", lambda p: p.beam("a", beam=0), "beam must be at least 1"),
    ("generator", lambda p: p.next(None), "the prompt must be a text"),
    ("generator", lambda p: p.next("a", k=0), "k must be a whole number of at least 1"),
    ("generator", lambda p: p.next("a", k=-3), "k must be"),
    ("generator", lambda p: p.score(None), "score takes a list of texts"),
    ("generator", lambda p: p.score([None]), r"texts\[0\] is of type NoneType"),
    ("captioner", lambda p: p.caption(None), "caption takes a list of images"),
    ("captioner", lambda p: p.caption("picture.png"), "caption takes a list of images"),
    ("captioner", lambda p: p.caption([None]), "an image is a file or an array, not a value of type NoneType"),
    ("captioner", lambda p: p.caption([IMAGE.astype(np.float32)]), "values of type float32; give uint8"),
    ("captioner", lambda p: p.caption([IMAGE], beam=0), "beam must be at least 1"),
]


@pytest.mark.parametrize(("name", "call", "message"), CALLS, ids=[f"{name}: {message}" for name, _, message in CALLS])
def test_wrong_arguments_are_refused(name: str, call: Callable[[Any], object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        call(PIPELINES[name]())


@pytest.mark.parametrize("name", PIPELINES)
def test_only_texts_or_images_can_be_recorded(name: str) -> None:
    pipeline = PIPELINES[name]()
    for source in (None, 3, b"a", ["a"]):
        with pytest.raises(UserError):
            pipeline.record(source)  # type: ignore[arg-type]
    with pytest.raises(UserError):
        pipeline.record(example_input(pipeline), 5)  # type: ignore[arg-type]


def test_any_iterable_of_texts_will_do() -> None:
    translator: Any = PIPELINES["transformer"]()
    expected = [t.text for t in translator.translate(["a cat", "the witch"])]
    for texts in (("a cat", "the witch"), iter(["a cat", "the witch"]), np.array(["a cat", "the witch"])):
        assert [t.text for t in translator.translate(texts)] == expected


def test_models_are_loaded_from_paths_only() -> None:
    for folder in (None, 3, [BUNDLES / "transformer"]):
        with pytest.raises(UserError, match="a model directory is a path"):
            regard.load(folder)
    with pytest.raises(UserError, match="a model directory is a path"):
        regard.load(BUNDLES / "transformer", None)
    with pytest.raises(UserError):
        regard.load("a\0b")


@pytest.mark.parametrize("name", ["", "gpu", "cuda:99", "meta", "cpu:x", 3.5, "xla", "hip"])
def test_a_device_that_does_not_work_is_refused(name: Any) -> None:
    with pytest.raises(UserError, match="no such device"):
        device_named(name)
