"""Metrics: Prometheus can read them, they count what happens, and the docs name them all."""

import time
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from regard.serve.app import make_app
from regard.serve.batch_queue import FunctionJob, QueuedJob
from regard.serve.guard import Access
from regard.serve.limits import Limits
from regard.serve.metrics import RATIO
from regard.serve.registry import Registry
from tests.serve.conftest import make_client

DOCS = Path(__file__).parents[2] / "docs" / "serve.md"


def read(client: TestClient) -> dict[tuple[str, ...], float]:
    """Return the value of each sample by its name and the values of its labels."""
    response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = text_string_to_metric_families(response.text)
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


def test_the_queue_is_measured(models: dict[str, Path]) -> None:
    with make_client({"toy": models["toy"]}, Limits(queue=8)) as client:
        queue = client.app.state.dispatcher.queues["translate"]  # type: ignore[attr-defined]
        for _ in range(3):
            assert client.post("/v1/translate", json={"text": "a b"}).status_code == 200
        while queue.depth or queue.done < 3:  # a job is counted after its result was sent
            time.sleep(0.01)
        queue.batch = [QueuedJob(FunctionJob(lambda queued: None, "translate"))] * 2  # as if it were busy
        values = read(client)
        assert values["regard_queue_depth", "translate"] == values["regard_queue_running", "translate"] == 2
        assert values["regard_queue_waiting", "translate"] == 0 and values["regard_queue_capacity", "translate"] == 8
        assert values[RATIO,] == 2 / 8
        assert values["regard_queue_wait_seconds_count", "translate"] == 3
        assert values["regard_queue_wait_seconds_bucket", "translate", "+Inf"] == 3
        assert 0 <= values["regard_queue_wait_seconds_sum", "translate"] < 3
        assert values["regard_texts_total", "translate"] == 3
        queue.batch = queue.batch * 4
        assert client.post("/v1/translate", json={"text": "a b"}).status_code == 429
        full = read(client)
        assert full[RATIO,] == 1 and full["regard_refused_total", "translate"] == 1
        assert (full["regard_responses_total", "200"], full["regard_responses_total", "429"]) == (4, 1)
        assert full["regard_requests_running",] == 1, "the request for the metrics"
        ready = client.get("/readyz")
        assert ready.status_code == 200 and ready.json() == {"status": "busy"}, "it answers, with 429"


def test_a_server_that_is_about_to_stop_says_so_and_closes_connections() -> None:
    app = make_app(Registry([]), Access(frozenset({"testserver"})))
    with TestClient(app) as client:
        assert client.get("/readyz").json() == {"status": "ready"} and read(client)["regard_draining",] == 0
        assert "connection" not in client.get("/healthz").headers
        app.state.activity.draining = True
        refused = client.get("/readyz")
        assert refused.status_code == 503 and refused.json() == {"status": "draining"}
        assert refused.headers["connection"] == "close" and read(client)["regard_draining",] == 1
        assert client.get("/healthz").status_code == 200 and client.get("/nothing").headers["connection"] == "close"


def test_the_docs_name_all_metrics() -> None:
    with TestClient(make_app(Registry([]), Access(frozenset({"testserver"})))) as client:
        names = {family.name for family in text_string_to_metric_families(client.get("/metrics").text)}
    text = DOCS.read_text(encoding="utf-8")
    assert len(names) > 10 and [name for name in names if f"`{name}" not in text] == []
