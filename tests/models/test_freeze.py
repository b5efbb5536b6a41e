"""Parts that are not trained, by name."""

import pytest

from regard import models
from regard.errors import UserError
from regard.models.freeze import check_part, freeze
from regard.train.recipe import load_recipe
from tests.models.configs import ALL


def frozen(names: tuple[str, ...], **options: object) -> set[str]:
    model = models.build({"d_model": 8, "n_heads": 2, "d_ff": 8, "n_layers": 3, **options}, 12)
    freeze(model, names)
    return {name for name, parameter in model.named_parameters() if not parameter.requires_grad}


def test_parts_are_what_their_names_say() -> None:
    every = {
        name for name, _ in models.build({"d_model": 8, "n_heads": 2, "d_ff": 8, "n_layers": 3}, 12).named_parameters()
    }
    table = "encoder.embedding.tokens.weight"
    assert frozen(("embeddings",)) == {table}, "the output layer is tied to it"
    assert frozen(("encoder",)) == {name for name in every if name.startswith("encoder.")} - {table}
    assert frozen(("decoder",)) == {name for name in every if name.startswith("decoder.")}
    assert frozen(("attention",)) == {name for name in every if ".mixer." in name or ".cross." in name}
    assert frozen(("feed_forward",)) == {name for name in every if ".feedforward." in name}
    layers = {name for name in every if name.startswith(("encoder.layers.0.", "encoder.layers.1."))}
    assert frozen(("encoder.layers.0-1",)) == layers and frozen(("encoder.layers.0", "encoder.layers.1")) == layers
    assert frozen(()) == set()
    positions = frozen(("embeddings",), positions="learned", max_len=5)
    assert {name for name in positions if "positions" in name}


@pytest.mark.parametrize("name", ALL)
def test_every_model_can_keep_its_embeddings(name: str) -> None:
    model = models.build(ALL[name], 12)
    freeze(model, ("embeddings",))
    assert any(not parameter.requires_grad for parameter in model.parameters())


def test_names_that_do_not_fit_are_refused() -> None:
    for name, message in (
        ("encodr", "did you mean encoder"),
        ("layers", "choose from"),
        ("encoder.layers.3-1", "unknown"),
    ):
        with pytest.raises(ValueError, match=message):
            check_part(name)
    with pytest.raises(UserError, match=r"no encoder\.layers\.7"):
        frozen(("encoder.layers.7",))
    with pytest.raises(UserError, match=r"no decoder\.layers\.7-9999999999999"):
        frozen(("decoder.layers.7-9999999999999",))
    with pytest.raises(UserError, match="nothing would be left"):
        frozen(("embeddings", "encoder", "decoder"))
    with pytest.raises(UserError, match=r"train\.freeze.*did you mean attention"):
        load_recipe("tiny", settings=["train.freeze=[attentoin]", "train.init=x"])
    with pytest.raises(UserError, match="give --init"):
        load_recipe("tiny", settings=["train.freeze=[attention]"])
