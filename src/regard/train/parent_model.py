"""The model options of a run that starts from another model (`train.init`): those of that model, its parent."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard import models
from regard.bundle import NO_LANGUAGES, load_directions, load_task_and_model
from regard.config import flatten, merge
from regard.errors import UserError
from regard.text.direction import Direction, Directions
from regard.text.language_codes import same_language

_MAY_DIFFER = {"dropout", "attention_dropout"}
"""Model options that weights do not depend on"""
_CLASSIFIER = ("head", "pooling")
"""Options of a classifier that do not concern the weights of its encoder"""


def parent_model(init: Path, task: str, recipe: Mapping[str, Any], user: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the model in `init` for a run of this task.

    `recipe` are model options of the recipe and `user` those that the user has set. What contradicts the model is an
    error, except options of the recipe for tasks that have no recipe `auto`; the model's are used instead.
    """
    before, options = load_task_and_model(init)
    if before != task and (before, task) != ("masked", "classify"):
        raise UserError(
            f"--init {init}: a model for task {before} cannot be the start of one for task {task}; leave out --init"
        )
    parent = models.parse_config(options, where=str(init)).model_dump(mode="json")
    if before != task:
        own = merge({name: value for name, value in recipe.items() if name in _CLASSIFIER}, user)
        parent |= {"head": "label", **{name: own[name] for name in _CLASSIFIER if name in own}}
    if difference := _difference(parent, user):
        raise UserError(f"{difference} in --init {init}, whose model is used; leave it out")
    if task == "translate" and (difference := _difference(parent, merge(recipe, user))):
        raise UserError(f"--recipe: {difference} in --init {init}, whose model is used; leave out --recipe or --init")
    return parent


def with_dropout(model: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return model options with the chosen dropout in every part that has some."""
    changed = dict[str, Any]()
    for name, value in model.items():
        if isinstance(value, Mapping):
            changed[name] = with_dropout(value, chosen)
        else:
            changed[name] = chosen.get(name, value) if name in _MAY_DIFFER else value
    return changed


def translates_others(init: Path, directions: Directions) -> bool:
    """Return whether one of the directions is known to be none of those of the model in `init`."""
    before = load_directions(init)
    if any(direction.languages == NO_LANGUAGES for direction in (*before, *directions)):
        return False
    return not all(any(_same(known, direction) for known in before) for direction in directions)


def _same(one: Direction, other: Direction) -> bool:
    return same_language(one.source, other.source) and same_language(one.target, other.target)


def _difference(parent: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    """Return the first of the options that contradicts the parent's model, as the start of a sentence; else nothing."""
    before = flatten(parent)
    for name, value in flatten(options).items():
        if name.rpartition(".")[2] in _MAY_DIFFER or before.get(name, "") == value:
            continue
        if name not in before:
            return f"model.{name} is not an option of the model"
        if _parsed(parent, name, value) != before[name]:
            return f"model.{name} is {value}, but {before[name]}"
    return ""


def _parsed(parent: Mapping[str, Any], name: str, value: Any) -> Any:
    """Return a value as the config reads it, so that 1e-5 and 0.00001 are the same; one that is wrong as it is."""
    for key in reversed(name.split(".")):
        value = {key: value}
    try:
        return flatten(models.parse_config(merge(parent, value)).model_dump(mode="json")).get(name)
    except UserError:
        return flatten(value)[name]
