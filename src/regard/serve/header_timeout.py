"""HTTP with an end to patience: a head that does not come within seconds ends the connection (slow loris)."""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 5.0


class Patient(H11Protocol):
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._trust()
        super().connection_lost(exc)

    def _watch_head(self) -> None:
        """Between requests uvicorn's own clock runs; here it is a head that has begun, or a connection without one."""
        if self.conn.their_state is not h11.IDLE:
            self._trust()
        elif self._late is None:
            self._late = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _trust(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
