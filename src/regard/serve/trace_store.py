"""Bounded store of recent traces: a number of entries, bytes and seconds; ids are random."""

import secrets
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass

from regard.serve.inspect import TraceResult
from regard.serve.limits import Limits


@dataclass(frozen=True)
class StoredTrace:
    result: TraceResult
    n_bytes: int
    expires: float
    """Monotonic time"""


class TraceStore:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._traces: OrderedDict[str, StoredTrace] = OrderedDict()
        self._lock = threading.Lock()

    @staticmethod
    def new_id() -> str:
        return secrets.token_urlsafe(18)

    def add(self, trace_id: str, result: TraceResult) -> None:
        with self._lock:
            expires = time.monotonic() + self.limits.trace_seconds
            self._traces[trace_id] = StoredTrace(result, result.n_bytes, expires)
            self._evict()

    def get(self, trace_id: str) -> TraceResult | None:
        with self._lock:
            self._evict()
            if (stored := self._traces.get(trace_id)) is None:
                return None
            self._traces.move_to_end(trace_id)
            return stored.result

    def __len__(self) -> int:
        return len(self._traces)

    def _evict(self) -> None:
        """Remove expired traces, then the least recently used ones until the limits are met."""
        now = time.monotonic()
        for trace_id in [trace_id for trace_id, stored in self._traces.items() if stored.expires < now]:
            del self._traces[trace_id]
        n_bytes = sum(stored.n_bytes for stored in self._traces.values())
        while self._traces and (len(self._traces) > self.limits.traces or n_bytes > self.limits.trace_bytes):
            n_bytes -= self._traces.popitem(last=False)[1].n_bytes
