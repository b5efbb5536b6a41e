"""Options that would make a model of absurd size are refused before memory is allocated."""

from collections.abc import Iterator
from typing import Any, get_args

import pytest

from regard.config import Config
from regard.errors import UserError
from regard.models import MODELS, parse_config


def config_classes(annotation: Any) -> Iterator[type[Config]]:
    """Yield the Config classes in a type, and those of their options."""
    if isinstance(annotation, type) and issubclass(annotation, Config):
        yield annotation
        for field in annotation.model_fields.values():
            yield from config_classes(field.annotation)
    for part in get_args(annotation):
        yield from config_classes(part)


CLASSES = sorted({cls for kind, _ in MODELS.values() for cls in config_classes(kind)}, key=lambda cls: cls.__name__)


@pytest.mark.parametrize("cls", CLASSES)
def test_every_integer_option_has_an_upper_bound(cls: type[Config]) -> None:
    for name, field in cls.model_fields.items():
        if int in (field.annotation, *get_args(field.annotation)):
            with pytest.raises(UserError, match=rf"{name} must be at most [\d,]+, not 10000000"):
                cls.parse({name: 10_000_000})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_layers": 100_000}, "n_layers must be at most 1,000, not 100000"),
        ({"d_model": 10**9}, "d_model must be at most 65,536"),
        ({"d_model": 10**100}, "d_model must be at most 65,536$"),
        ({"kind": "encoder-decoder", "encoder": {"kind": "rnn", "d_model": 10**6}}, "encoder.d_model must be at most"),
        (
            {"kind": "encoder-decoder", "encoder": {"kind": "image", "size": 10**6}},
            "encoder.size must be at most 4,096",
        ),
        ({"kind": "decoder", "decoder": {"kind": "ssm", "d_state": 10**6}}, "decoder.d_state must be at most 4,096"),
    ],
    ids=str,
)
def test_hostile_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_config(options)
