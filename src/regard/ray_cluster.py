"""The connection to a Ray cluster."""

import logging
import os
import secrets
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any

from regard.errors import UserError

LOCAL = "local"
_PATIENCE = 10.0  # seconds in which a cluster must accept a connection


def check_ray_is_installed() -> None:
    if find_spec("ray") is None:
        raise UserError("--ray needs a package: pip install 'regard[ray]'")


def connect_to_ray(address: str) -> None:
    """Connect to a cluster, or start one on this machine that nobody else can use."""
    check_ray_is_installed()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address == LOCAL:  # Ray reads these once in a process
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    import ray

    options: dict[str, Any] = {"include_dashboard": False} if address == LOCAL else {}
    try:
        _check_reachable(address)
        with _kept_signal_handler():
            ray.init(address, logging_level=logging.ERROR, log_to_driver=False, **options)
    except (ConnectionError, RuntimeError, ValueError, OSError, OverflowError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".")
        raise UserError(
            f"--ray {address}: cannot connect ({reason}); give HOST:PORT of a cluster that this machine is a node of, "
            "auto or local"
        ) from None


def disconnect_from_ray() -> None:
    import ray

    with suppress(Exception):
        ray.shutdown()


@contextmanager
def _kept_signal_handler() -> Iterator[None]:
    """Undo what Ray does to SIGTERM: the command, and not Ray, says how a job ends."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _check_reachable(address: str) -> None:
    """Raise an OSError at once if nobody listens at HOST:PORT; Ray would try for many minutes."""
    host, separator, port = address.rpartition(":")
    if separator and port.isdecimal() and "/" not in host:
        socket.create_connection((host, int(port)), _PATIENCE).close()
