"""Random requests, valid and invalid by the OpenAPI document of a server, made by schemathesis."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import seed as with_seed
from hypothesis.errors import Unsatisfiable
from hypothesis.strategies import SearchStrategy
from schemathesis import Case, GenerationMode, openapi

from regard.serve.limits import Limits

LIMITS = Limits(tokens=12, chars=100, beam=3, texts=4)
"""Searches with these limits are short"""
TRACE_ID = "id-of-a-stored-trace"
"""`fill_in` replaces it"""
FIELDS: dict[str, list[Any]] = {
    "model": ["toy", "rnn", "text"],
    "source": ["src", "auto"],
    "target": ["tgt"],
    "to": [None, "tgt"],
    "trace": [TRACE_ID],
    "trace_id": [TRACE_ID],
    "names": ["cross.weights", "encoder.thumb,decoder.weights", "decoder.weights", "none"],
    "ablate": [["cross.0.1"], ["decoder.1.3", "encoder.0.0"], []],
    "pixels": [None],
    "block": ["decoder.0", "output", "encoder.embedding", "none"],
    "value": [["input"], ["logits[0:1]"]],
    "baseline": [None, TRACE_ID],
    "tab": ["", "tab"],
    "role": ["user", "assistant", "system"],
    "format": ["text", "html"],
}
"""Values of fields that few random values fit, so that requests reach a model"""
_FEW = 6  # the largest number, where a model knows no larger ones
_OPTIONS = settings(deadline=None, suppress_health_check=list(HealthCheck), database=None)


def make_strategies(document: dict[str, Any]) -> list[SearchStrategy[Case]]:
    """Return a source of valid and one of invalid requests for each operation that has parameters or a body."""
    schema = openapi.from_dict(sharpen(document))
    operations = [result.ok() for result in schema.get_all_operations()]
    return [
        operation.as_strategy(generation_mode=mode)
        for operation in operations
        if operation.body or operation.query or operation.path_parameters
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    ]


def send_each(strategy: SearchStrategy[Case], n_cases: int, seed: int, send: Callable[[Case], None]) -> None:
    """Call `send` with this many requests."""

    @with_seed(seed)
    @settings(_OPTIONS, max_examples=n_cases)
    @given(case=strategy)
    def check(case: Case) -> None:
        send(case)

    with suppress(Unsatisfiable):  # every value of these parameters is valid
        check()


def fill_in(case: Case, trace_id: str) -> Case:
    """Replace TRACE_ID by the id of a trace."""
    for place in (case.path_parameters, case.body):
        for name, value in place.items() if isinstance(place, dict) else ():
            if value == TRACE_ID:
                place[name] = trace_id
    return case


def sharpen(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document with fewer valid values: those that this server can work with."""
    document = deepcopy(document)
    for schema in document["components"]["schemas"].values():
        properties = schema.get("properties", {})
        for name, value in properties.items():
            if name in FIELDS and "string" in str(value):
                properties[name] = {"enum": FIELDS[name]}
            elif not value.keys() & {"type", "anyOf", "allOf", "oneOf", "$ref", "enum", "const"}:
                properties[name] = {"enum": [None]}  # without effect, or not supported
        needed = {"model", "text"} & properties.keys()
        schema["required"] = sorted({*schema.get("required", ()), *needed})
    for value in _find(document["paths"], "parameters"):
        for parameter in value:
            if parameter["name"] in FIELDS:
                parameter["schema"] = {"enum": FIELDS[parameter["name"]]}
    for schema in _schemas(document):
        if schema.get("type") == "integer" and schema.get("maximum", schema.get("exclusiveMaximum", 0)) > _FEW:
            low = int(schema.get("minimum", 0))
            schema.clear()
            schema["enum"] = list(range(max(low, 0), _FEW + 1))  # not 1.0, which would be an integer too
    return document


def _find(tree: Any, key: str) -> Iterator[Any]:
    """Yield all values of this key in a tree."""
    return (branch[key] for branch in _schemas(tree) if key in branch)


def _schemas(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects of a tree."""
    if isinstance(tree, dict):
        yield tree
    for branch in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _schemas(branch)


def resident(process: int) -> int:
    """Return the KiB of memory that a process has."""
    rows = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(row for row in rows if row.startswith("VmRSS")).split()[1])
