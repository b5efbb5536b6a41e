"""The store of recent traces."""

from regard.serve.bounded_store import BoundedStore
from regard.serve.inspect import TraceResult
from regard.serve.limits import Limits


class TraceStore(BoundedStore[TraceResult]):
    def __init__(self, limits: Limits) -> None:
        super().__init__(limits.traces, limits.trace_bytes, limits.trace_seconds)

    def add(self, trace_id: str, result: TraceResult, client: str) -> None:
        self.put(trace_id, result, result.n_bytes, client)
