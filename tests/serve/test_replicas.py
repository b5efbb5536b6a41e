"""Two replicas behind nginx with deploy/nginx.conf: what any can do, what stays with one; no request is lost."""

import importlib
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from regard.serve.batch_queue import FunctionJob, QueuedJob
from regard.serve.limits import Limits
from tests.serve.live import serving

BENCH = Path(__file__).parents[2] / "bench"
sys.path.append(str(BENCH))
nginx = importlib.import_module("nginx")
sys.path.remove(str(BENCH))

pytestmark = pytest.mark.skipif(nginx.find_nginx() is None, reason="nginx is not installed")
TOKEN = "let-me-in"
TEXT = {"model": "toy", "text": "a b c"}
_FAKE = QueuedJob(FunctionJob(lambda queued: None, "translate"))


class Balanced:
    """A client of nginx, and the two replicas behind it"""

    def __init__(self, models: dict[str, Path], stack: ExitStack) -> None:
        self.stops = [ExitStack() for _ in range(2)]
        self.apps, ports = list[FastAPI](), list[int]()
        for stop in self.stops:
            stack.push(stop)
            address, app = stop.enter_context(serving({"toy": models["toy"]}, Limits(queue=4), TOKEN))
            self.apps.append(app)
            ports.append(int(address.rpartition(":")[2]))
        address = f"http://127.0.0.1:{stack.enter_context(nginx.run_nginx(ports))}"
        self.client = stack.enter_context(httpx.Client(base_url=address, timeout=30))
        assert self.client.post("/", data={"token": TOKEN}).status_code == 303

    def statuses(self, n: int = 6) -> list[int]:
        return [self.client.post("/v1/translate", json=TEXT).status_code for _ in range(n)]

    def fill(self, *replicas: int) -> None:
        """Let the queues of these replicas be full, and those of the others empty."""
        for number, app in enumerate(self.apps):
            queue = app.state.dispatcher.queues["translate"]
            while queue.batch and _FAKE not in queue.batch:  # the last job ends after its result was sent
                time.sleep(0.01)
            queue.batch = [_FAKE] * 4 if number in replicas else []


@pytest.fixture(scope="module")
def balanced(models: dict[str, Path]) -> Iterator[Balanced]:
    with ExitStack() as stack:
        yield Balanced(models, stack)


def test_a_browser_that_has_signed_in_can_use_all_replicas(balanced: Balanced) -> None:
    assert balanced.statuses() == [200] * 6
    assert all(app.state.activity.responses[200] >= 2 for app in balanced.apps), "both got requests"


def test_traces_and_documents_are_found_again(balanced: Balanced) -> None:
    for _ in range(4):
        trace = balanced.client.post("/v1/trace", json=TEXT).json()["id"]
        tensors = balanced.client.get(f"/v1/trace/{trace}/tensors", params={"names": "cross.weights"})
        head = {"trace": trace, "site": "cross", "layer": 0, "head": 0, "query": 0}
        assert (tensors.status_code, balanced.client.post("/v1/explain", json=head).status_code) == (200, 200)
        form = {"source": "src", "target": "tgt"}
        file = balanced.client.post("/translate_file", data=form, files={"file": ("a.txt", b"a b c")}).json()
        assert balanced.client.get(file["translatedFileUrl"]).status_code == 200


def test_a_full_replica_passes_requests_to_the_other(balanced: Balanced) -> None:
    balanced.fill(0)
    assert balanced.statuses() == [200] * 6
    balanced.fill(0, 1)
    refused = balanced.client.post("/v1/translate", json=TEXT)
    assert refused.status_code == 429 and refused.headers["retry-after"] == "1"
    balanced.fill()
    assert balanced.statuses() == [200] * 6, "replicas that were full are used at once"


def test_a_replica_that_is_gone_is_skipped(balanced: Balanced) -> None:
    balanced.stops[1].close()
    assert balanced.statuses() == [200] * 6
    assert balanced.client.post("/v1/trace", json=TEXT).status_code == 200
    balanced.fill(0)
    for _ in range(2):
        refused = balanced.client.post("/v1/translate", json=TEXT)
        assert refused.status_code in (429, 503) and refused.headers["retry-after"] == "1"
    balanced.fill()


def test_no_request_is_lost_when_replicas_are_killed_or_restarted() -> None:
    command = [sys.executable, BENCH / "replicas.py", "--clients", "6", "--seconds", "0.5", "--drain-delay", "0.2"]
    run = subprocess.run([*command, "--layers", "1"], capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stdout + run.stderr
    phases = [line for line in run.stdout.splitlines() if "lost 0  wrong 0" in line]
    assert len(phases) == 3 and all("× 200" in line for line in phases)
