"""Toy models and a client that all tests of the server share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from regard.serve.app import make_app
from regard.serve.guard import Access
from regard.serve.limits import Limits
from regard.serve.registry import Registry
from tests.serve.models import toy_models

LOCAL = Access(frozenset({"testserver"}))


def make_client(models: dict[str, Path], limits: Limits | None = None, **options: bool) -> TestClient:
    """A client of a new server in this process"""
    registry = Registry.open([Path(f"{name}={folder}") for name, folder in models.items()], "cpu")
    return TestClient(make_app(registry, LOCAL, limits), **options)  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Directories of `toy_models`"""
    return toy_models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def client(models: dict[str, Path]) -> Iterator[TestClient]:
    """A client of a server with toy, rnn and text"""
    with make_client({name: models[name] for name in ("toy", "rnn", "text")}) as client:
        yield client
