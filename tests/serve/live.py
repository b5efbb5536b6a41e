"""A server on a real socket, in a thread of this process."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fastapi import FastAPI

from regard.serve.app import make_app
from regard.serve.guard import Access
from regard.serve.limits import Limits
from regard.serve.registry import Registry
from regard.serve.server import Server


@contextmanager
def serving(
    models: dict[str, Path], limits: Limits | None = None, token: str | None = None
) -> Iterator[tuple[str, FastAPI]]:
    """Run a server with these models; yield its address and the application."""
    registry = Registry.open([Path(f"{name}={folder}") for name, folder in models.items()], "cpu")
    app = make_app(registry, Access(frozenset({"127.0.0.1"}), token), limits)
    server = Server(app)
    listener = socket.create_server(("127.0.0.1", 0))  # as `regard serve` does
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = listener.getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}", app
    finally:
        server.should_exit = True
        thread.join(20)
