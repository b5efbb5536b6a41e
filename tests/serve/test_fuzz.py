"""Whatever is sent, right by the schema or wrong, there is an answer, it is no fault of ours, and it is short."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from schemathesis import Case, GenerationMode

from regard.serve.app import make_app
from regard.serve.guard import Access
from regard.serve.registry import Registry
from tests.serve.models import toy_models

CASES = 2_000
OPTIONS = settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    models = toy_models(tmp_path_factory.mktemp("models"))
    registry = Registry.open([Path(f"{name}={folder}") for name, folder in models.items()], "cpu")
    yield make_app(registry, Access(frozenset({"localhost", "testserver", "127.0.0.1"})))


def resident() -> int:
    """KiB of memory"""
    return int(next(row for row in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in row).split()[1])


def test_no_request_is_our_fault(app: FastAPI) -> None:
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    operations = [found.ok() for found in schema.get_all_operations()]
    modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    seen: list[int] = []
    before = 0
    asked = [each for each in operations if each.body or each.query or each.path_parameters]
    for operation in asked:
        for mode in modes:

            @settings(OPTIONS, max_examples=CASES // (len(asked) * len(modes)) + 1)
            @given(case=operation.as_strategy(generation_mode=mode))
            def ask(case: Case) -> None:
                answer = case.call()
                seen.append(answer.status_code)
                assert answer.status_code < 500, (case.method, case.path)
                assert answer.status_code < 400 or len(answer.content) <= 1024

            ask()
            before = before or resident()
    assert len(asked) >= 9 and len(seen) >= CASES
    assert {200, 422} <= set(seen)
    assert resident() < 1.3 * before, "memory stays where it was"
