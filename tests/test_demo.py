"""`regard demo` with any recipe for translation."""

from pathlib import Path

import pytest

from regard import demo
from regard.data.builtin.grammar_corpus import generate_corpus
from regard.errors import UserError
from regard.train.recipe import Recipe, load_recipe


def test_another_recipe_is_trained_into_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def short(name: str, settings: tuple[str, ...] = ()) -> Recipe:
        sizes = ("train.steps=2", "valid.every=2", "model.encoder.d_model=16", "model.decoder.d_model=16")
        return load_recipe(name, settings=[*settings, "tokenizer.vocab_size=350", *(sizes if name == "rnn" else ())])

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "load_recipe", short)
    monkeypatch.setattr(demo, "generate_corpus", lambda direction: generate_corpus(200, 10, 10, direction=direction))
    lines: list[str] = []
    demo.run_demo(None, "fr-en", "rnn", lines.append)
    text = "\n".join(lines)
    assert (tmp_path / "runs/demo-rnn-fr-en/model.safetensors").is_file()
    assert "of 10" in text and "no attention to the source" in text and "regard translate runs/demo-rnn-fr-en" in text


def test_recipes_for_more_data_are_shortened_and_other_tasks_refused() -> None:
    lines: list[str] = []
    assert demo._recipe_for_demo("rnn-dot", lines.append) == load_recipe("rnn-dot") and not lines
    for name in ("small", "base", "multi30k"):
        recipe = demo._recipe_for_demo(name, lines.append)
        assert (recipe.train.steps, recipe.batch.tokens) == (1500, 1024)
        assert recipe.model == load_recipe(name).model
        assert name in lines[-1] and "hours" in lines[-1]
    with pytest.raises(UserError, match="trains translators"):
        demo._recipe_for_demo("gpt", lines.append)
