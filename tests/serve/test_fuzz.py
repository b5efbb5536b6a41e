"""Random requests, valid and invalid by the OpenAPI document: no status 5xx, short errors, constant memory."""

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

CASES = 2_000
WARM_UP = 20  # cases per operation and mode, after which the libraries have loaded what they need
OPTIONS = settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)


@pytest.fixture(scope="module")
def app(models: dict[str, Path]) -> Iterator[FastAPI]:
    registry = Registry.open([Path(f"{name}={folder}") for name, folder in models.items()], "cpu")
    yield make_app(registry, Access(frozenset({"localhost", "testserver", "127.0.0.1"})))


def resident() -> int:
    """KiB of memory"""
    return int(next(row for row in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in row).split()[1])


def test_random_requests(app: FastAPI) -> None:
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    all_operations = [result.ok() for result in schema.get_all_operations()]
    operations = [each for each in all_operations if each.body or each.query or each.path_parameters]
    modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    statuses: list[int] = []

    def send(n_cases: int) -> None:
        """Send this many requests per operation and mode."""
        for operation in operations:
            for mode in modes:

                @settings(OPTIONS, max_examples=n_cases)
                @given(case=operation.as_strategy(generation_mode=mode))
                def check(case: Case) -> None:
                    response = case.call()
                    statuses.append(response.status_code)
                    assert response.status_code < 500, (case.method, case.path)
                    assert response.status_code < 400 or len(response.content) <= 1024

                check()

    send(WARM_UP)
    before = resident()
    statuses.clear()
    send(CASES // (len(operations) * len(modes)) + 1)
    assert len(operations) >= 9 and len(statuses) >= CASES
    assert {200, 422} <= set(statuses)
    assert resident() < 1.2 * before, "memory grows with the number of requests"
