"""Two replicas behind nginx (deploy/nginx.conf) under load: one is killed, then both are restarted one after the other.

    python bench/replicas.py --clients 32 --seconds 10

Each client sends one request after another. Every response is compared with the translation by the library. Prints
for each phase how many responses had which status, how many requests were lost (no response, or a status other than 200
and 429), and times. Ends with exit code 1 if a request was lost, a translation was wrong, or a replica that got
SIGTERM did not end with exit code 0.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from nginx import free_port, run_nginx
from regard.pipelines.load import load
from serve_load import request, save_model, sentences, wait_for

_PAUSE = 0.5  # seconds that a client waits after 429


@dataclass
class Phase:
    """What clients got during a part of the run"""

    name: str
    statuses: Counter[str] = field(default_factory=Counter)
    times: list[float] = field(default_factory=list)
    """Seconds of successful requests"""
    n_wrong: int = 0

    @property
    def n_lost(self) -> int:
        return sum(n for status, n in self.statuses.items() if status not in ("200", "429"))

    def __str__(self) -> str:
        times = sorted(self.times)
        p50, p99 = (1000 * times[int(share * (len(times) - 1))] if times else 0 for share in (0.5, 0.99))
        counts = ", ".join(f"{n:,} × {status}" for status, n in sorted(self.statuses.items()))
        return (
            f"{self.name:34} {counts:22} lost {self.n_lost}  wrong {self.n_wrong}  "
            f"p50 {p50:.0f} ms  p99 {p99:.0f} ms  longest {1000 * max(times, default=0):.0f} ms"
        )


class Replica:
    """A `regard serve` process on one core that can be killed and started again on the same port."""

    def __init__(self, folder: Path, drain_delay: float) -> None:
        self.port = free_port()
        options = ["--port", str(self.port), "--drain-delay", str(drain_delay)]
        self.command = [sys.executable, "-m", "regard", "serve", str(folder), *options]
        self.start()

    def start(self) -> None:
        one_core = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, env=one_core)

    def wait_ready(self) -> None:
        wait_for(f"http://127.0.0.1:{self.port}")

    def end(self, number: signal.Signals) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(60)


class Load:
    """Clients in a thread of their own; what they get is counted in `phase`."""

    def __init__(self, port: int, clients: int, expected: dict[str, str]) -> None:
        self.port, self.clients, self.expected = port, clients, expected
        self.phase = Phase("")
        self._stopped = False
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped = True
        self._thread.join()

    async def _run(self) -> None:
        await asyncio.gather(*(self._client(seed) for seed in range(self.clients)))

    async def _client(self, seed: int) -> None:
        draw, texts = random.Random(seed), list(self.expected)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        while not self._stopped:
            text, sent = draw.choice(texts), time.monotonic()
            try:
                status, content = await request(reader, writer, text)
            except (asyncio.IncompleteReadError, ConnectionError):
                self.phase.statuses["no response"] += 1
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                continue
            self.phase.statuses[str(status)] += 1
            if status == 200:
                self.phase.times.append(time.monotonic() - sent)
                self.phase.n_wrong += json.loads(content)["translatedText"] != self.expected[text]
            else:
                await asyncio.sleep(_PAUSE)
        writer.close()


def measure(load_of: Load, replicas: list[Replica], seconds: float) -> tuple[list[Phase], list[int]]:
    """Return what clients got in each phase, and the exit codes of the replicas that were stopped."""
    phases, codes = list[Phase](), list[int]()

    def begin(name: str) -> None:
        load_of.phase = Phase(name)
        phases.append(load_of.phase)

    one, _ = replicas
    begin("two replicas")
    load_of.start()
    time.sleep(seconds)
    begin("one killed (SIGKILL) and restarted")
    one.end(signal.SIGKILL)
    time.sleep(seconds)
    one.start()
    one.wait_ready()
    time.sleep(seconds)
    begin("both restarted in turn (SIGTERM)")
    for replica in replicas:
        codes.append(replica.end(signal.SIGTERM))
        replica.start()
        replica.wait_ready()
    time.sleep(seconds)
    load_of.stop()
    return phases, codes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=10, help="how long each part of a phase takes")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--drain-delay", type=float, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model, texts = Path(folder) / "model", sentences(200)
        save_model(model, options.width, options.layers)
        translator = load(model)
        expected = {text: translator.translate([text])[0].text for text in texts}
        replicas = [Replica(model, options.drain_delay) for _ in range(2)]
        try:
            for replica in replicas:
                replica.wait_ready()
            with run_nginx([replica.port for replica in replicas]) as port:
                phases, codes = measure(Load(port, options.clients, expected), replicas, options.seconds)
        finally:
            for replica in replicas:
                replica.process.kill()
    for phase in phases:
        print(phase)
    print(f"exit codes after SIGTERM: {codes}")
    return int(any(codes) or any(phase.n_lost or phase.n_wrong or not phase.times for phase in phases))


if __name__ == "__main__":
    sys.exit(main())
