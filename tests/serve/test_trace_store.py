"""The store of traces: bounded for all clients together, and no client pushes out the traces of others."""

from types import SimpleNamespace
from typing import Any

import pytest

from regard.serve.limits import Limits
from regard.serve.trace_store import TraceStore


def result(n_bytes: int = 1) -> Any:
    return SimpleNamespace(n_bytes=n_bytes)


def kept(store: TraceStore, names: list[str]) -> list[str]:
    return [name for name in names if store.get(name) is not None]


def test_the_client_with_most_traces_loses_its_oldest() -> None:
    store = TraceStore(Limits(traces=6))
    store.add("quiet-1", result(), "quiet")
    store.add("quiet-2", result(), "quiet")
    busy = [f"busy-{i}" for i in range(50)]
    for name in busy:
        store.add(name, result(), "busy")
    assert kept(store, ["quiet-1", "quiet-2"]) == ["quiet-1", "quiet-2"] and len(store) == 6
    assert kept(store, busy) == busy[-4:]
    store.get(busy[-4])  # a trace that was used is not the oldest any more
    store.add("new", result(), "newcomer")
    assert kept(store, busy) == [busy[-4], *busy[-2:]] and store.get("new") is not None


def test_the_client_with_most_bytes_loses_its_oldest() -> None:
    store = TraceStore(Limits(trace_bytes=100))
    store.add("small", result(10), "quiet")
    for i in range(5):
        store.add(f"large-{i}", result(40), "busy")
    assert kept(store, ["small", *(f"large-{i}" for i in range(5))]) == ["small", "large-3", "large-4"]
    store.add("too large", result(1000), "busy")
    assert kept(store, ["small", "too large", "large-4"]) == ["small"]


def test_traces_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("regard.serve.bounded_store.time.monotonic", lambda: now)
    store = TraceStore(Limits(trace_seconds=5.0))
    store.add("old", result(), "client")
    now = 4.0
    assert store.get("old") is not None
    now = 8.0
    assert store.get("old") is not None, "5 s since the last use are not over"
    now = 14.0
    assert store.get("old") is None and len(store) == 0
