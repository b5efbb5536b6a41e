"""A worker process of `WorkerProcesses`: `python -m regard.bulk.worker_process` reads and writes lines of JSON."""

import json
import os
import signal
import sys
from queue import SimpleQueue
from threading import Thread
from typing import Any, BinaryIO

from regard.threads import limit_spinning

_BETWEEN = 256  # lines that are translated between two replies about the progress


def main() -> None:
    """Translate parts until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; the first one decides
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no reply
    limit_spinning()
    requests: SimpleQueue[dict[str, Any]] = SimpleQueue()
    Thread(target=_read, args=(sys.stdin.buffer, requests), daemon=True).start()

    def reply(content: dict[str, Any]) -> None:
        replies.write(json.dumps(content).encode() + b"\n")
        replies.flush()

    from regard.bulk.line_translator import PartWorker

    worker = PartWorker()
    reply(worker.start(**requests.get()))
    while True:
        reply(worker.translate(**requests.get(), progress=lambda n: None if n % _BETWEEN else reply({"done": n})))


def _read(file: BinaryIO, requests: "SimpleQueue[dict[str, Any]]") -> None:
    """Collect requests; end this process, whatever it is doing, when the process that sends them has ended."""
    for line in file:
        requests.put(json.loads(line))
    os._exit(1)


if __name__ == "__main__":
    main()
