from pathlib import Path

import pytest

from regard.config import merge, overrides, read_yaml
from regard.errors import UserError
from regard.train.recipe import Recipe, load_recipe


def test_settings_override_the_recipe(tmp_path: Path) -> None:
    assert overrides(["a.b=1", "a.c=x", "d=[1, 2]"]) == {"a": {"b": 1, "c": "x"}, "d": [1, 2]}
    assert merge({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}) == {"a": {"b": 3, "c": 2}}
    file = tmp_path / "c.yaml"
    file.write_text("train: {lr: 0.5, steps: 7}\n")
    recipe = load_recipe("tiny", file, ["train.lr=1e-3"])
    assert (recipe.train.lr, recipe.train.steps, recipe.model.d_model) == (1e-3, 7, 128)


def test_a_recipe_saved_as_yaml_is_read_back(tmp_path: Path) -> None:
    recipe = load_recipe("multi30k", settings=["decode.sampling={top_k: 3}", "train.betas=[0.8, 0.9]"])
    (tmp_path / "c.yaml").write_text(recipe.to_yaml())
    assert Recipe.parse(read_yaml(tmp_path / "c.yaml")) == recipe


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["trian.lr=1"], "did you mean 'train'"),
        (["model.dropot=0.1"], "did you mean 'dropout'"),
        (["model.kind=lstm"], "transformer"),
        (["train.betas=3"], "train.betas"),
        (["decode.beam=0"], "decode.beam"),
        (["train.precision=fp8"], "train.precision"),
        (["model=3"], "model"),
        (["train.lr={"], "YAML"),
    ],
)
def test_errors_name_the_option(settings: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_recipe("tiny", settings=settings)


@pytest.mark.parametrize("text", ["a: [", "- 1", "!!python/object/apply:os.system ['true']", "\x00", "[" * 5000])
def test_bad_yaml_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(UserError):
        read_yaml(tmp_path / "c.yaml")
