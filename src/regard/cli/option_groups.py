"""Groups of options: a parameter of a verb may be a dataclass, whose fields are options of the command line."""

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any


def with_option_groups(verb: Callable[..., None]) -> Callable[..., None]:
    """Return the verb with the fields of its dataclass parameters as parameters of its own, as Typer expects them."""
    parameters = inspect.signature(verb, eval_str=True).parameters.values()
    groups: dict[str, Any] = {each.name: each.annotation for each in parameters if is_dataclass(each.annotation)}
    options: list[inspect.Parameter] = []
    for each in parameters:
        if each.name not in groups:
            options.append(each.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        for field in fields(groups[each.name]):
            kind = inspect.Parameter.KEYWORD_ONLY
            options.append(inspect.Parameter(field.name, kind, default=field.default, annotation=field.type))

    @wraps(verb)
    def run(**given: Any) -> None:
        made = {name: group(**{f.name: given.pop(f.name) for f in fields(group)}) for name, group in groups.items()}
        verb(**given, **made)

    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in options}
    return run
