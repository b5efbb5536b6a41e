"""The server process: on SIGTERM it tells load balancers, finishes its requests and ends with exit code 0."""

import asyncio
import math
import os
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import uvicorn
from fastapi import FastAPI
from pydantic import Field

from regard.config import Config
from regard.serve.activity import Activity
from regard.serve.dispatch import Dispatcher
from regard.serve.header_timeout import HeaderTimeoutProtocol

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_CANCEL_SECONDS = 2  # after which requests that do not end by themselves are cancelled


class DrainConfig(Config):
    delay: float = Field(5.0, ge=0.0)
    """Seconds after SIGTERM in which the server still accepts requests, so that load balancers notice"""
    seconds: float = Field(30.0, ge=0.0)
    """How long running requests may continue after that; then they get 503"""


class Server(uvicorn.Server):
    """uvicorn's server, which stops in steps.

    SIGTERM: `/readyz` is 503 at once, and responses close their connections. After `delay` (SIGINT: at once) no
    connection is accepted any more; requests that run are finished. After `seconds` those that still run are refused
    with 503. A second signal ends the process.
    """

    def __init__(self, app: FastAPI, drain: DrainConfig | None = None, proxies: Sequence[str] = ()) -> None:
        self.drain = drain or DrainConfig()
        self.activity: Activity = app.state.activity
        self.dispatcher: Dispatcher = app.state.dispatcher
        config = uvicorn.Config(
            app,
            http=HeaderTimeoutProtocol,
            ws="none",
            log_level="warning",
            server_header=False,
            proxy_headers=bool(proxies),
            forwarded_allow_ips=list(proxies),
            timeout_graceful_shutdown=math.ceil(self.drain.seconds) + _CANCEL_SECONDS,
        )
        super().__init__(config)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at a signal. uvicorn would raise it again at the end, so that the exit code were not 0."""
        if threading.current_thread() is not threading.main_thread():  # which alone gets signals
            yield
            return
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._begin_to_stop, self.drain.delay if number == signal.SIGTERM else 0.0)
        yield

    def _begin_to_stop(self, delay: float) -> None:
        for number in _SIGNALS:
            signal.signal(number, exit_at_once)
        self.activity.draining = True
        asyncio.get_running_loop().call_later(delay, self._stop)

    def _stop(self) -> None:
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.activity.draining = True
        timer = asyncio.get_running_loop().call_later(self.drain.seconds, self.dispatcher.stop)
        await super().shutdown(sockets)
        timer.cancel()


def exit_at_once(number: int, frame: FrameType | None = None) -> None:
    """End the process. A signal without a handler does not end the first process of a container."""
    os._exit(128 + number)
