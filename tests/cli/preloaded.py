"""A process that has imported regard and torch and forks for every command, which then starts in milliseconds.

`python -m tests.cli.preloaded FD` serves commands on the socket FD. Each child has the arguments, environment, folder
and standard streams of its command, and ends as any Python process does.
"""

import atexit
import gc
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard import files as regard_files

_MAX_MESSAGE = 1 << 20


class PreloadedCommands:
    """The client: starts the process on first use and ends it at exit."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._socket, other = socket.socketpair()
        command = [sys.executable, "-W", "error", "-m", "tests.cli.preloaded", str(other.fileno())]
        self._server = subprocess.Popen(command, env=environment, pass_fds=[other.fileno()], cwd=_repository())
        other.close()
        atexit.register(self.close)

    def start(
        self, arguments: Sequence[str], streams: Sequence[int], environment: Mapping[str, str], prelude: str = ""
    ) -> int:
        """Start `regard ARGUMENTS` with these file descriptors as stdin, stdout and stderr; return its process id.

        The prelude is code that the process runs first. `wait` must be called before the next start.
        """
        request = {"arguments": arguments, "environment": dict(environment), "folder": str(Path.cwd())}
        request["prelude"] = prelude
        socket.send_fds(self._socket, [json.dumps(request).encode()], list(streams))
        self._child = int(self._socket.recv(64))
        return self._child

    def wait(self, timeout: float) -> int:
        """Return the exit code of the command that was started, as `subprocess` does; kill it after the timeout."""
        self._socket.settimeout(timeout)
        try:
            return int(self._socket.recv(64))
        except TimeoutError:
            os.kill(self._child, signal.SIGKILL)
            self._socket.settimeout(None)
            self._socket.recv(64)
            raise
        finally:
            self._socket.settimeout(None)

    def close(self) -> None:
        self._socket.close()
        self._server.wait()


def _repository() -> str:
    """Return the folder that contains `tests`."""
    return str(Path(__file__).resolve().parents[2])


def _serve(connection: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Answer requests until the client closes; in a child, return its request."""
    while True:
        message, streams, _, _ = socket.recv_fds(connection, _MAX_MESSAGE, 3)
        if not message:
            return None
        child = os.fork()
        if not child:
            return json.loads(message), streams
        for stream in streams:
            os.close(stream)
        connection.send(str(child).encode())
        _, status = os.waitpid(child, 0)
        connection.send(str(os.waitstatus_to_exitcode(status)).encode())


def _preload() -> None:
    """Import what most commands need, and exempt it from garbage collection, which would copy its memory."""
    import regard.cli
    import regard.evaluate.run
    import regard.explain.topics
    import regard.pipelines.load
    import regard.train.run
    import regard.visualize.attend  # noqa: F401

    gc.freeze()


def _become(request: dict[str, Any], streams: Sequence[int]) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.argv = ["regard", *request["arguments"]]
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which nohup ignores
    regard_files._PROCESS = secrets.token_hex(4)  # differs between processes that are not forks of each other
    exec(request["prelude"], {})


if __name__ == "__main__":
    _preload()
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        command = _serve(connection)
    if command is not None:
        _become(*command)
        from regard.cli.app import main

        main()
