"""Random requests to a running server: how many of each status, and whether its memory stays the same.

    python bench/serve_fuzz.py --cases 100000

Serves three small models with random weights and sends requests to every operation of the OpenAPI document, valid and
invalid ones, made by schemathesis. Prints the number of responses per status and the memory of the server (RSS) at
intervals. A status of 500 or more ends the run with an error.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import httpx
import requests
from schemathesis import Case

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.serve.fuzz import fill_in, make_strategies, resident, send_each
from tests.serve.models import toy_models

from serve_load import wait_for

PORT = 8766
ADDRESS = f"http://127.0.0.1:{PORT}"
PER_ROUND = 200  # cases of an operation and mode, before the next one's turn
SERVE = """
import sys
from pathlib import Path
import uvicorn
from regard.serve.app import make_app
from regard.serve.guard import Access
from regard.serve.header_timeout import HeaderTimeoutProtocol
from regard.serve.registry import Registry
from tests.serve.fuzz import LIMITS
registry = Registry.open([Path(folder) for folder in sys.argv[2:]], "cpu")
app = make_app(registry, Access(frozenset({"127.0.0.1"})), LIMITS)
uvicorn.run(app, port=int(sys.argv[1]), http=HeaderTimeoutProtocol, ws="none", log_level="error")
"""
"""As `regard serve`, with limits under which searches are short"""


class Fuzzer:
    """Sends requests and counts the responses."""

    def __init__(self, server: int) -> None:
        self.server = server
        self.session = requests.Session()
        self.statuses = Counter[int]()
        self.start = time.monotonic()

    def run(self, n_cases: int, interval: int) -> None:
        strategies = make_strategies(httpx.get(f"{ADDRESS}/openapi.json").json())
        seed, reported = 0, 0
        while self.statuses.total() < n_cases:
            body = {"model": "toy", "text": "a b"}
            self.trace = httpx.post(f"{ADDRESS}/v1/trace", json=body).json()["id"]
            for strategy in strategies:
                send_each(strategy, PER_ROUND, seed, self.send)
            seed += 1
            if self.statuses.total() - reported >= interval:
                reported = self.statuses.total()
                self.report()
        self.report()

    def send(self, case: Case) -> None:
        response = fill_in(case, self.trace).call(base_url=ADDRESS, session=self.session)
        self.statuses[response.status_code] += 1
        if response.status_code >= 500:
            raise SystemExit(f"status {response.status_code}: {case.as_curl_command()}\n{response.text[:500]}")

    def report(self) -> None:
        minutes, n_cases = (time.monotonic() - self.start) / 60, self.statuses.total()
        counts = ", ".join(f"{status}: {n:,}" for status, n in sorted(self.statuses.items()))
        print(f"{n_cases:8,} cases, {minutes:5.1f} min, {resident(self.server) / 1024:6.1f} MiB; {counts}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--every", type=int, default=5_000, help="cases between two reports")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        models = toy_models(Path(folder))
        arguments = [f"{name}={path}" for name, path in models.items()]
        server = subprocess.Popen([sys.executable, "-c", SERVE, str(PORT), *arguments], cwd=Path(__file__).parents[1])
        try:
            wait_for(ADDRESS)
            Fuzzer(server.pid).run(options.cases, options.every)
        finally:
            server.terminate()
            server.wait(20)


if __name__ == "__main__":
    main()
