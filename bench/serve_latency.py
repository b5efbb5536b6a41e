"""What the server adds to one translation: one client with an open connection against `Translator.translate`.

    python bench/serve_latency.py runs/demo

Both translate the same sentences by turns, so that a busy machine slows both. Prints the medians, and the median and
the quartiles of the differences. `/v1/translate` also returns the word alignment, and so does the call in the process.
"""

import argparse
import http.client
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from regard.bundle import Bundle
from regard.pipelines.load import load
from regard.pipelines.translator import Translator
from serve_load import PORT, wait_for

TEXTS = ("i sometimes worked", "the green witch arrived", "the sad doctor with the dog sleeps in a hotel now")


def milliseconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - start)


def post(connection: http.client.HTTPConnection, path: str, body: dict[str, str]) -> bytes:
    connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
    response = connection.getresponse()
    content = response.read()
    if response.status != 200:
        raise SystemExit(f"{path}: status {response.status}")
    return content


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a translator")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--threads", type=int, help="threads of torch on both sides  [default: those of torch]")
    options = parser.parse_args()
    command = [sys.executable, "-m", "regard", "serve", f"model={options.folder}", "--port", str(PORT)]
    if options.threads:
        torch.set_num_threads(options.threads)
        command = ["env", f"OMP_NUM_THREADS={options.threads}", *command]
    translator = load(options.folder)
    if not isinstance(translator, Translator):
        raise SystemExit(f"{options.folder}: not a translator")
    languages = Bundle.load(options.folder).languages
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        wait_for(f"http://127.0.0.1:{PORT}")
        connection = http.client.HTTPConnection("127.0.0.1", PORT)
        compare(translator, connection, languages, options.rounds)
    finally:
        server.terminate()
        server.wait(20)


def compare(
    translator: Translator, connection: http.client.HTTPConnection, languages: tuple[str, str], rounds: int
) -> None:
    ways: dict[str, tuple[bool, Callable[[str], dict[str, str]]]] = {
        "/v1/translate": (True, lambda text: {"text": text}),
        "/translate": (False, lambda text: {"q": text, "source": languages[0], "target": languages[1]}),
    }
    for path, (attention, body) in ways.items():
        inside, outside = list[float](), list[float]()
        for text in TEXTS * rounds:
            inside.append(milliseconds(partial(translator.translate, [text], attention=attention)))
            outside.append(milliseconds(partial(post, connection, path, body(text))))
        added = [o - i for i, o in zip(inside, outside, strict=True)][len(TEXTS) :]
        low, middle, high = statistics.quantiles(added, n=4)
        print(
            f"{path:14} {statistics.median(outside):7.2f} ms, in the process {statistics.median(inside):7.2f} ms, "
            f"added {middle:.2f} ms (quartiles {low:.2f} and {high:.2f})"
        )


if __name__ == "__main__":
    main()
