"""Random requests, valid and invalid by the OpenAPI document: no status 5xx, short errors, constant memory.

bench/serve_fuzz.py sends many more.
"""

import os
from collections import Counter
from pathlib import Path

from schemathesis import Case
from schemathesis.python.asgi import ASGIClient

from regard.serve.app import make_app
from regard.serve.guard import Access
from regard.serve.registry import Registry
from tests.serve.fuzz import LIMITS, fill_in, make_strategies, resident, send_each

CASES = 2_000
WARM_UP = 15  # cases per operation and mode, after which the libraries have loaded what they need


def test_random_requests(models: dict[str, Path]) -> None:
    registry = Registry.open([Path(f"{name}={folder}") for name, folder in models.items()], "cpu")
    app = make_app(registry, Access(frozenset({"localhost"})), LIMITS)
    strategies = make_strategies(app.openapi())
    statuses = Counter[int]()
    with ASGIClient(app, "http://localhost") as client:

        def send(case: Case) -> None:
            response = case.call(base_url="http://localhost", session=client)
            statuses[response.status_code] += 1
            assert response.status_code < 500, (case.method, case.path)
            assert response.status_code < 400 or len(response.content) <= 1024

        def send_all(n_cases: int, seed: int) -> None:
            trace = client.post("/v1/trace", json={"model": "toy", "text": "a b"}).json()["id"]
            for strategy in strategies:
                send_each(strategy, n_cases, seed, lambda case: send(fill_in(case, trace)))

        send_all(WARM_UP, seed=1)
        before = resident(os.getpid())
        seed = 2
        while (missing := CASES - statuses.total()) > 0:
            send_all(missing // len(strategies) + 1, seed)
            seed += 1
    assert len(strategies) >= 18 and statuses[200] >= CASES // 5, "many requests reach a model"
    assert resident(os.getpid()) < 1.2 * before, "memory grows with the number of requests"
