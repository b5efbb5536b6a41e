"""Base classes of request and response bodies, and bounds that depend on the limits of the server."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from annotated_types import Le, Lt, MaxLen
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field, create_model

from regard.serve.limits import Limits

Body = TypeVar("Body", bound=BaseModel)


class RequestBody(BaseModel):
    """Unknown fields are refused, and values must have the right type: "5" is no number."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True, use_attribute_docstrings=True)


class ResponseBody(BaseModel):
    model_config = ConfigDict(
        frozen=True, json_schema_serialization_defaults_required=True, use_attribute_docstrings=True
    )

    def as_event(self, name: str = "") -> str:
        """Format the body as a server-sent event."""
        return (f"event: {name}\n" if name else "") + f"data: {self.model_dump_json()}\n\n"


@dataclass(frozen=True)
class LimitedBy:
    """Marks the type of a field that is bounded by one of the server's limits, which `apply_limits` fills in."""

    limit: str
    """A field of Limits"""
    bound: type[Le] | type[Lt] | type[MaxLen]

    def resolve(self, limits: Limits) -> Le | Lt | MaxLen:
        return self.bound(getattr(limits, self.limit))


LimitedText = Annotated[str, LimitedBy("chars", MaxLen)]
LimitedLength = Annotated[int, LimitedBy("tokens", Le), Field(ge=1)]
LanguageCode = Annotated[str, Field(min_length=1, max_length=64)]
ModelName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]


def apply_limits(body: type[Body], limits: Limits) -> type[Body]:
    """Return the model with the server's limits as bounds of its fields."""
    changed: dict[str, Any] = {}
    for name, hint in get_type_hints(body, include_extras=True).items():
        if name in body.model_fields and (bounded := _bounded(hint, limits)) != hint:
            field = body.model_fields[name]
            changed[name] = (bounded, Field(field.default, description=field.description))
    return create_model(body.__name__, __base__=body, __doc__=body.__doc__, **changed)


def _bounded(hint: Any, limits: Limits) -> Any:
    """Replace the marks in a type by bounds."""
    origin, arguments = get_origin(hint), get_args(hint)
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return apply_limits(hint, limits)
    if origin is Annotated:
        marks = (mark.resolve(limits) if isinstance(mark, LimitedBy) else mark for mark in hint.__metadata__)
        return Annotated[(_bounded(arguments[0], limits), *marks)]
    if origin is None or origin is Literal:
        return hint
    parts = [_bounded(part, limits) for part in arguments]
    return reduce(or_, parts) if origin in (Union, UnionType) else origin[tuple(parts)]


def limited_route(limits: Limits) -> type[APIRoute]:
    """Return a class of routes whose request bodies are bounded by these limits."""

    class LimitedRoute(APIRoute):
        def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
            for name, hint in endpoint.__annotations__.items():
                if isinstance(hint, type) and issubclass(hint, RequestBody):
                    endpoint.__annotations__[name] = apply_limits(hint, limits)
            super().__init__(path, endpoint, **options)

    return LimitedRoute
