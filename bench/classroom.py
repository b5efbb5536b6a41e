"""A class that looks inside a model at once: as many tabs as pupils, each with its own sentence.

    python bench/classroom.py runs/demo-en-fr

Every tab does what the page does: it asks for the sentences of its text and their tokens, traces the sentence (which
streams the output) and reads what is drawn: thumbnails of all heads, flow, logit lens and the stages of a block.
Prints how long each of these takes (median, 95th percentile, longest) and how many tabs did not get their
own trace.
"""

import argparse
import asyncio
import json
import random
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import httpx

from serve_load import PORT, wait_for

WORDS = "a the green red old young witch doctor dog cat friend sees sleeps arrived worked now and"


def sentences(n: int, n_words: int) -> list[str]:
    draw = random.Random(1)
    return [" ".join(draw.choices(WORDS.split(), k=n_words)) for _ in range(n)]


async def use_page(client: httpx.AsyncClient, tab: int, text: str, times: dict[str, list[float]]) -> bool:
    """Trace one sentence and read what the page draws; return whether the trace is that of this sentence."""

    async def timed(name: str, path: str, **parameters: str) -> None:
        start = time.monotonic()
        response = await client.get(path, params=parameters)
        response.raise_for_status()
        times[name].append(time.monotonic() - start)

    start, first, done = time.monotonic(), 0.0, ""
    for path in ("/v1/sentences", "/v1/tokenize"):
        (await client.post(path, json={"model": "model", "text": text})).raise_for_status()
    body = {"model": "model", "text": text, "source": text, "stream": True, "tab": f"tab-{tab}"}
    async with client.stream("POST", "/v1/trace", json=body) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            first = first or time.monotonic() - start
            done = line.removeprefix("data: ") if line.startswith("data: ") else done
    times["first word"].append(first)
    times["trace"].append(time.monotonic() - start)
    trace = json.loads(done)
    if "id" not in trace:  # the event `failed`
        raise SystemExit(f"a trace failed after {time.monotonic() - start:.1f} s: {trace}")
    path = f"/v1/trace/{trace['id']}"
    names = ",".join(f"{site['name']}.thumb" for site in trace["sites"])
    await timed("thumbnails", f"{path}/tensors", names=names)
    await timed("flow", f"{path}/flow")
    await timed("lens", f"{path}/lens")
    await timed("stages", f"{path}/stages", block="decoder.0")
    times["all of it"].append(time.monotonic() - start)
    source = "".join(token["text"] for token in trace["source"] if token["word"] >= 0)
    return source.replace("▁", " ").split() == text.split()


async def run_class(n_tabs: int, n_words: int) -> None:
    times, limits = defaultdict[str, list[float]](list), httpx.Limits(max_connections=n_tabs)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{PORT}", timeout=300, limits=limits) as client:
        await use_page(client, -1, "the green witch arrived", defaultdict(list))  # the first request is slower
        tabs = (use_page(client, i, text, times) for i, text in enumerate(sentences(n_tabs, n_words)))
        own = await asyncio.gather(*tabs)
    print(f"{n_tabs} tabs at once, sentences of {n_words} words; seconds: median, 95th percentile, longest")
    for name, values in times.items():
        ordered = sorted(values)
        p95 = ordered[int(0.95 * (len(ordered) - 1))]
        print(f"{name:12} {statistics.median(ordered):8.2f} {p95:8.2f} {ordered[-1]:8.2f}")
    print(f"tabs that did not get their own trace: {own.count(False)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a model that reads English")
    parser.add_argument("--tabs", type=int, default=100)
    parser.add_argument("--words", type=int, default=8)
    options = parser.parse_args()
    command = [sys.executable, "-m", "regard", "serve", f"model={options.folder}", "--port", str(PORT)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        wait_for(f"http://127.0.0.1:{PORT}")
        asyncio.run(run_class(options.tabs, options.words))
    finally:
        server.terminate()
        server.wait(20)


if __name__ == "__main__":
    main()
