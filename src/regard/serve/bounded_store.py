"""Bounded store of recent results: a number of entries, bytes and seconds since the last use; ids are random.

When it is full, the client that stores most loses its oldest entry, so that none can push out the entries of others.
Each tab of a client may have limits of its own; when it reaches them, it loses its own oldest entry.
"""

import secrets
import threading
import time
from collections import Counter, OrderedDict
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

StoredT = TypeVar("StoredT")


@dataclass(frozen=True)
class StoredEntry(Generic[StoredT]):
    value: StoredT
    client: str
    tab: str
    n_bytes: int
    expires: float
    """Monotonic time"""


class BoundedStore(Generic[StoredT]):
    def __init__(
        self, entries: int, n_bytes: int, seconds: float, tab_entries: int | None = None, tab_bytes: int | None = None
    ) -> None:
        """Keep so many entries with so many bytes in all and per tab of a client, each for so long."""
        self.most_entries = entries
        self.most_bytes = n_bytes
        self.seconds = seconds
        self.most_of_tab = entries if tab_entries is None else tab_entries
        self.most_bytes_of_tab = n_bytes if tab_bytes is None else tab_bytes
        self._entries: OrderedDict[str, StoredEntry[StoredT]] = OrderedDict()
        self._lock = threading.Lock()

    @staticmethod
    def new_id() -> str:
        return secrets.token_urlsafe(18)

    def put(self, entry_id: str, value: StoredT, n_bytes: int, client: str, tab: str = "") -> None:
        with self._lock:
            self._entries[entry_id] = StoredEntry(value, client, tab, n_bytes, time.monotonic() + self.seconds)
            self._evict_from(client, tab)
            self._evict()

    def get(self, entry_id: str) -> StoredT | None:
        with self._lock:
            self._evict()
            if (stored := self._entries.get(entry_id)) is None:
                return None
            self._entries[entry_id] = replace(stored, expires=time.monotonic() + self.seconds)
            self._entries.move_to_end(entry_id)
            return stored.value

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)

    def _evict_from(self, client: str, tab: str) -> None:
        """Remove the oldest entries of a tab until its own limits are met."""
        own = [name for name, stored in self._entries.items() if (stored.client, stored.tab) == (client, tab)]
        n_bytes = sum(self._entries[name].n_bytes for name in own)
        for n_left, name in zip(range(len(own), 0, -1), own, strict=True):
            if n_left <= self.most_of_tab and n_bytes <= self.most_bytes_of_tab:
                return
            n_bytes -= self._entries.pop(name).n_bytes

    def _evict(self) -> None:
        """Remove expired entries, then entries of the clients that store most until the limits are met."""
        now = time.monotonic()
        for entry_id in [entry_id for entry_id, stored in self._entries.items() if stored.expires < now]:
            del self._entries[entry_id]
        counts, sizes = Counter[str](), Counter[str]()
        for stored in self._entries.values():
            counts[stored.client] += 1
            sizes[stored.client] += stored.n_bytes
        while (too_many := counts.total() > self.most_entries) or sizes.total() > self.most_bytes:
            [(client, _)] = (counts if too_many else sizes).most_common(1)
            oldest = next(entry_id for entry_id, stored in self._entries.items() if stored.client == client)
            counts[client] -= 1
            sizes[client] -= self._entries.pop(oldest).n_bytes
