"""Traces that a page may still ask for: few, not large, not long, and under names that cannot be guessed."""

import secrets
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass

from regard.serve.inspect import Probe
from regard.serve.limits import Limits
from regard.serve.registry import Served


@dataclass(frozen=True)
class Kept:
    served: Served
    probe: Probe
    until: float


class Traces:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, served: Served, probe: Probe) -> str:
        name = secrets.token_urlsafe(18)
        with self._lock:
            self._kept[name] = Kept(served, probe, time.monotonic() + self.limits.trace_seconds)
            self._drop()
        return name

    def get(self, name: str) -> Kept | None:
        with self._lock:
            self._drop()
            if name in self._kept:
                self._kept.move_to_end(name)
            return self._kept.get(name)

    def __len__(self) -> int:
        return len(self._kept)

    def _drop(self) -> None:
        """What is old, and then what was not asked for longest"""
        now = time.monotonic()
        for name in [name for name, kept in self._kept.items() if kept.until < now]:
            del self._kept[name]
        while self._kept and (
            len(self._kept) > self.limits.traces
            or sum(kept.probe.size for kept in self._kept.values()) > self.limits.trace_bytes
        ):
            self._kept.popitem(last=False)
