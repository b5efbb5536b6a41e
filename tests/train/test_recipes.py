"""Every recipe is trained for three updates, and the resulting model is used."""

from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data.builtin.grammar_corpus import generate_corpus
from regard.data.builtin.shapes import generate_scenes
from regard.data.images import save_image
from regard.pipelines.captioner import Captioner
from regard.pipelines.classifier import Classifier
from regard.pipelines.generator import Generator
from regard.pipelines.load import Pipeline, load
from regard.pipelines.translator import Translator
from regard.train.recipe import load_recipe, recipe_folder, recipe_names
from regard.train.run import Run, train
from tests.conftest import write_pairs

SMALL = (
    *("train.steps=3", "valid.every=3", "train.log_every=1", "batch.tokens=256", "batch.workers=0"),
    *("train.compile=false", "valid.sentences=4", "decode.max_len=5"),  # untrained models do not end their sentences
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> "Files":
    folder = tmp_path_factory.mktemp("data")
    pairs = [(pair.src, pair.tgt) for pair in generate_corpus()["train"][:150]]
    text = folder / "text.txt"
    text.write_text("".join(f"{src}\n" for src, _ in pairs), encoding="utf-8")
    labels = folder / "labels.tsv"
    labels.write_text("".join(f"{src}\t{'question' if '?' in src else 'other one'}\n" for src, _ in pairs[:100]))
    captions = folder / "captions.tsv"
    lines = []
    for i, scene in enumerate(generate_scenes({"train": 40})["train"]):
        save_image(scene.image, folder / f"{i}.png")
        lines.append(f"{i}.png\t{scene.caption}\n")
    captions.write_text("".join(lines))
    return {
        "translate": write_pairs(folder, "pairs", pairs),
        "text": (text,),
        "masked": (text,),
        "classify": (labels,),
        "caption": (captions,),
    }


Files = dict[str, tuple[Path, ...]]


def trained(name: str, files: Files, out: Path, *more: str, init: Path | None = None, device: str = "cpu") -> Pipeline:
    start = (f"train.init={init}",) if init else ()
    recipe = load_recipe(name, settings=(*SMALL, *more, *start))
    result = train(Run(recipe, files[recipe.task], None, out, device=device))
    assert np.isfinite(result.validation.loss)
    return load(out, device=device)


@pytest.mark.parametrize("device", ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"])
@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_trains_a_usable_model(name: str, device: str, files: Files, tmp_path: Path) -> None:
    comments = [line for line in (recipe_folder() / f"{name}.yaml").read_text().splitlines() if line.startswith("#")]
    assert len(comments) == 2, "two lines about the recipe"
    more = ["tokenizer.vocab_size=600" if name == "llama" else "tokenizer.vocab_size=400"]
    more += ["batch.tokens=64"] if name == "base" else []
    model = trained(name, files, tmp_path / "run", *more, device=device)
    match model:
        case Translator():
            assert len(model.translate(["the witch arrived", "a cat"], max_len=5)) == 2
        case Generator():
            assert model.generate("the", max_new_tokens=5).startswith("the")
        case Classifier():
            assert model.embed(["the cat", "a witch or two"]).shape == (2, model.model.d_model)
        case Captioner():
            assert model.caption([files["caption"][0].parent / "0.png"], max_len=5)[0].text


def test_a_classifier_starts_from_a_pretrained_encoder(files: Files, tmp_path: Path) -> None:
    encoder = ("n_layers=1", "d_model=32", "d_ff=32")
    small = ("tokenizer.vocab_size=400", *(f"model.encoder.{option}" for option in encoder))
    pretrained = trained("bert", files, tmp_path / "bert", *small)
    quick = ("train.steps=150", "valid.every=50", "train.lr=3e-3")
    model = trained("classifier", files, tmp_path / "classifier", *small, *quick, init=tmp_path / "bert")
    assert isinstance(model, Classifier) and isinstance(pretrained, Classifier)
    assert model.src_tokenizer.to_bytes() == pretrained.src_tokenizer.to_bytes()
    assert model.labels == ["other one", "question"]
    results = model.classify(["did the witch arrive ?", "the witch arrived ."])
    assert [c.label for c in results] == ["question", "other one"]
    assert sum(results[0].probabilities.values()) == pytest.approx(1.0)
    alone = model.classify(["the witch arrived ."])[0].probabilities
    assert alone["question"] == pytest.approx(results[1].probabilities["question"], abs=1e-5)
