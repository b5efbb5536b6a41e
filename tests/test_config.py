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


def test_mistakes_are_explained_in_plain_words() -> None:
    for setting, message in {
        "decode.beam=0": "decode.beam must be at least 1, not 0",
        "decode.beam=2000": "decode.beam must be at most 1,000, not 2000",
        "train.lr=0": "train.lr must be more than 0.0, not 0",
        "model.dropout=1": "dropout must be less than 1.0, not 1",
        "train.steps=many": "train.steps must be a whole number, not 'many'",
        "train.steps=1.5": "train.steps must be a whole number, not 1.5",
        "train.steps=": "train.steps must be a whole number, not empty",
        "train.lr=fast": "train.lr must be a number, not 'fast'",
        "train.lr=.nan": "train.lr must be a number, not nan",
        "tokenizer.joint=perhaps": "tokenizer.joint must be true or false, not 'perhaps'",
        "tokenizer.kind=bpf": "tokenizer.kind must be bpe, unigram, char, word or bytes, not 'bpf'",
        "model.norm=true": "norm must be pre or post, not true",
        "tokenizer=3": "tokenizer must be a mapping of options, not 3",
        "train.betas=3": "train.betas must be a list, not 3",
        f"train.steps={10**30}": "train.steps: the number is too large",
        "model={kind: decoder, decoder: {kind: lstm}}": "decoder: kind 'lstm' is unknown; choose one of transformer",
        "model={kind: decoder, decoder: {n_layers: 2}}": "decoder: 'kind' is missing; choose one of transformer",
        "train.lr=2000-99-99": "the value is not valid YAML",
        "train.lr=!!int ''": "the value is not valid YAML",
        "train.steps=" + "9" * 5000: "the value is not valid YAML",
    }.items():
        with pytest.raises(UserError) as error:
            load_recipe("tiny", settings=[setting])
        assert message in str(error.value)
        assert "Input" not in str(error.value)


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
        (["batch.max_tokens=2000"], "raise decode.max_source"),
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
