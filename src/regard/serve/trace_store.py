"""The store of recent traces, a few per browser tab, and of the attention weights of some of them."""

from regard.models.record import KINDS, AttentionRecord
from regard.serve.bounded_store import BoundedStore
from regard.serve.inspect import TraceResult
from regard.serve.limits import Limits


class TraceStore:
    """Weights take most of the memory. Those that are no longer stored are computed again."""

    def __init__(self, limits: Limits) -> None:
        size = (limits.traces, limits.trace_bytes, limits.trace_seconds)
        self.results = BoundedStore[TraceResult](*size, limits.tab_traces, limits.tab_trace_bytes)
        self.records = BoundedStore[AttentionRecord](*size)
        self.new_id = self.results.new_id

    def __len__(self) -> int:
        return len(self.results)

    def add(self, trace_id: str, result: TraceResult, client: str, tab: str = "") -> None:
        """`client` is who sent the request; a client may have several tabs."""
        self.results.put(trace_id, result, result.n_bytes, client, tab)

    def get(self, trace_id: str) -> TraceResult | None:
        return self.results.get(trace_id)

    def record(self, trace_id: str, result: TraceResult, client: str) -> AttentionRecord:
        """Return the attention of all heads of a stored trace."""
        record = self.records.get(trace_id)
        if record is None:
            record = result.record()
            n_bytes = sum(record.weights(kind).nbytes for kind in KINDS)
            self.records.put(trace_id, record, n_bytes, client)
        return record
