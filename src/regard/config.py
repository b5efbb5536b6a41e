"""Options: YAML files and dotted overrides are validated into a tree of frozen `Config` objects."""

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, get_args

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from regard.errors import UserError
from regard.paths import check_input_file

_MAX_SHOWN = 40  # characters of a wrong value that a message repeats


class Config(BaseModel):
    """Base class of all options. A subclass is defined next to the code it configures; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    @field_validator("*")
    @classmethod
    def _check_integer(cls, value: Any) -> Any:
        if isinstance(value, int) and abs(value) >= 2**63:
            raise ValueError("the number is too large")
        return value

    @classmethod
    def parse(cls, options: Mapping[str, Any], where: str = "config") -> Self:
        """Validate `options`. The first mistake is raised as a UserError that names the key and what to do."""
        try:
            return cls.model_validate(options)
        except ValidationError as error:
            raise UserError(_explain(cls, error, where)) from None


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file of options; an empty file gives an empty mapping."""
    check_input_file(path)
    try:
        tree = parse_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise UserError(f"{path}: not valid YAML ({_first_line(error)})") from None
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise UserError(f"{path}: must be a mapping of keys to values, written as 'key: value'")
    return tree


def parse_yaml(text: str, aliases: bool = True) -> Any:
    """Return the value of a YAML text; raise a ValueError if it is not valid.

    A hostile text can make a few aliases expand to any size, so that they are refused in files of others.
    """
    try:
        return (_UniqueKeys if aliases else _WithoutAliases)(text).get_single_data()
    except yaml.YAMLError as error:
        raise ValueError(_first_line(error)) from None
    except (LookupError, AttributeError, TypeError, RecursionError) as error:  # such as !!int ""
        raise ValueError(f"a value is not of its type: {_first_line(error)}") from None


class _UniqueKeys(yaml.SafeLoader):
    """Refuses a mapping with the same key twice, of which YAML would drop the first."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        scalars = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if repeated := next((key for i, key in enumerate(scalars) if key in scalars[:i]), None):
            raise yaml.YAMLError(f"'{repeated}' occurs twice")
        return super().construct_mapping(node, deep)


class _WithoutAliases(yaml.SafeLoader):
    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("it has aliases")
        return super().compose_node(parent, index)


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` overridden by `over`; nested mappings are merged, other values replaced."""
    merged = dict(base)
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            value = merge(merged[key], value)
        merged[key] = value
    return merged


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Turn {"train": {"lr": 1}} into {"train.lr": 1}."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def overrides(settings: Sequence[str]) -> dict[str, Any]:
    """Turn `["train.lr=1e-3"]` into `{"train": {"lr": "1e-3"}}`; values are parsed as YAML."""
    tree: dict[str, Any] = {}
    for setting in settings:
        path, separator, text = setting.partition("=")
        if not separator or not path:
            raise UserError(f"--set {setting}: write it as key=value, for example --set train.lr=1e-3")
        try:
            value = parse_yaml(text)
        except ValueError:
            raise UserError(f"--set {setting}: the value is not valid YAML") from None
        for key in reversed(path.split(".")):
            value = {key: value}
        tree = merge(tree, value)
    return tree


def _explain(cls: type[Config], error: ValidationError, where: str) -> str:
    """Return one line about the first error."""
    first = error.errors(include_url=False)[0]
    path, known = _walk(cls, [str(part) for part in first["loc"]])
    name, prefix = ".".join(path), f"{where}: " if where else ""
    if first["type"] == "extra_forbidden":
        near = difflib.get_close_matches(path[-1], known, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"known keys: {', '.join(known)}"
        return f"{prefix}unknown key '{name}'; {hint}"
    if first["type"] in ("union_tag_not_found", "union_tag_invalid"):
        kind = first.get("ctx", {}).get("tag")
        problem = "'kind' is missing" if kind is None else f"kind '{kind}' is unknown"
        return f"{prefix}{name}: {problem}; choose one of {', '.join(known)}"
    if first["type"] == "missing":
        return f"{prefix}'{name}' is missing"
    if requirement := _requirement(first["type"], first.get("ctx", {})):
        return f"{prefix}{name} must be {requirement}{_shown(first['input'])}"
    message = first["msg"].removeprefix("Value error, ")
    return f"{prefix}{name}: {message}" if name else f"{prefix}{message}"


def _requirement(error_type: str, context: Mapping[str, Any]) -> str:
    """Say in plain words what a value must be, for the errors of pydantic that are frequent; else nothing."""
    match error_type:
        case "greater_than_equal":
            return f"at least {context['ge']:,}"
        case "less_than_equal":
            return f"at most {context['le']:,}"
        case "greater_than":
            return f"more than {context['gt']:,}"
        case "less_than":
            return f"less than {context['lt']:,}"
        case "literal_error":
            return str(context["expected"]).replace("'", "")
        case "int_type" | "int_parsing" | "int_from_float" | "int_parsing_size":
            return "a whole number"
        case "float_type" | "float_parsing" | "finite_number":
            return "a number"
        case "bool_type" | "bool_parsing":
            return "true or false"
        case "string_type" | "path_type":
            return "a text"
        case "tuple_type" | "list_type":
            return "a list"
        case "too_short":
            return f"a list of at least {context['min_length']}"
        case "model_type" | "model_attributes_type" | "dict_type":
            return "a mapping of options"
    return ""


def _shown(value: object) -> str:
    """Return `, not VALUE` for a value that is short enough to be shown."""
    match value:
        case None:
            return ", not empty"
        case bool():
            return f", not {str(value).lower()}"
        case int() if abs(value) >= 10**18:
            return ""
        case int() | float():
            return f", not {value}"
        case str() if len(value) <= _MAX_SHOWN:
            return f", not '{value}'"
    return ""


def _walk(cls: type[Config], path: Sequence[str]) -> tuple[list[str], list[str]]:
    """Follow the path of an error through the classes; return it as the user writes it, and the keys allowed there.

    Where an option may be one of several classes, pydantic adds the chosen kind to the path; it is removed here. If
    the kind itself is missing, the kinds are returned instead of keys.
    """
    keys: list[str] = []
    by_kind: dict[str, type[Config]] = {}
    for name in path:
        if name in by_kind:
            cls, by_kind = by_kind[name], {}
            continue
        keys.append(name)
        if name not in cls.model_fields:
            break
        classes = _classes_in(cls.model_fields[name].annotation)
        if len(classes) > 1:
            by_kind = {str(c.model_fields["kind"].default): c for c in classes}
        elif classes:
            cls = classes[0]
    return keys, list(by_kind or cls.model_fields)


def _classes_in(annotation: Any) -> list[type[Config]]:
    """Return the Config classes that occur in a type annotation."""
    if isinstance(annotation, type):
        return [annotation] if issubclass(annotation, Config) else []
    return [cls for part in get_args(annotation) for cls in _classes_in(part)]


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
