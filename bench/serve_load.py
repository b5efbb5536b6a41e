"""Throughput of the running server in sentences per second: one client, then many, whose requests are batched.

A model of base size (6 + 6 layers, d_model 512) with random weights decodes sentences of 8 to 24 words greedily. Prints
the ratio. With --storm, sends ten times as many requests as the server can handle and reports the responses.
"""

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import httpx
import torch

from regard import models
from regard.bundle import Bundle
from regard.search.decode import DecodeConfig
from regard.text.tokenizer import TokenizerConfig, TokenizerPair, train_tokenizer

PORT = 8765
WORDS = [f"w{i}" for i in range(8000)]


def save_model(folder: Path, width: int, layers: int) -> None:
    torch.manual_seed(1)
    words = train_tokenizer([" ".join(WORDS)], TokenizerConfig(kind="word", vocab_size=len(WORDS) + 6))
    heads, d_ff = max(1, width // 64), 4 * width
    config = models.parse_config(
        {"kind": "transformer", "d_model": width, "n_heads": heads, "d_ff": d_ff, "n_layers": layers}
    )
    model = models.build(config, words.size).eval()
    decode = DecodeConfig(beam=1, max_len=20)
    Bundle(model, config, TokenizerPair(words, words), ("src", "tgt"), decode).save(folder, "random weights")


def sentences(n: int) -> list[str]:
    draw = random.Random(1)
    return [" ".join(draw.choices(WORDS, k=draw.randint(8, 24))) for _ in range(n)]


async def request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, text: str) -> tuple[int, bytes]:
    """Send one request on an open connection and return the status code and the content.

    Written without a client library, which would take more time than the server.
    """
    body = json.dumps({"q": text, "source": "src", "target": "tgt"}).encode()
    head = (
        f"POST /translate HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    )
    writer.write(head.encode() + b"\r\n\r\n" + body)
    head_lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length = next(line for line in head_lines.split("\r\n") if line.startswith("content-length:"))
    content = await reader.readexactly(int(length.split(":")[1]))
    return int(head_lines.split(" ")[1]), content


async def measure(clients: int, seconds: float) -> tuple[float, Counter[int], list[float]]:
    """Return sentences per second, the number of responses per status code, and the sorted times of successful ones."""
    texts, codes, times = sentences(500), Counter[int](), list[float]()
    start = time.monotonic()

    async def client(seed: int) -> None:
        draw = random.Random(seed)
        reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
        while (sent := time.monotonic()) < start + seconds:
            try:
                code, _ = await request(reader, writer, draw.choice(texts))
            except (asyncio.IncompleteReadError, ConnectionError):
                code = 0  # the server closed the connection
                reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
            codes[code] += 1
            if code == 200:
                times.append(time.monotonic() - sent)
            else:
                await asyncio.sleep(0.5)
        writer.close()

    await asyncio.gather(*(client(seed) for seed in range(clients)))
    return codes[200] / (time.monotonic() - start), codes, sorted(times)


def wait_for(address: str) -> None:
    for _ in range(600):
        try:
            if httpx.get(f"{address}/healthz").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise SystemExit("the server did not start within a minute")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument(
        "--storm", action="store_true", help="send ten times as many requests as the queue holds, for 60 seconds"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        save_model(Path(folder) / "base", options.width, options.layers)
        command = [sys.executable, "-m", "regard", "serve", f"{folder}/base", "--port", str(PORT)]
        server = subprocess.Popen(command)
        address = f"http://127.0.0.1:{PORT}"
        try:
            wait_for(address)
            asyncio.run(measure(2, 2))  # warm up
            if options.storm:
                speed, codes, times = asyncio.run(measure(640, 60))
                p99 = times[int(0.99 * (len(times) - 1))]
                print(f"640 clients: {speed:.1f} sentences/s, responses by status {dict(codes)}, p99 {p99:.2f} s")
                speed, codes, _ = asyncio.run(measure(1, 3))
                print(f"right after that, one client: {speed:.1f} sentences/s, responses by status {dict(codes)}")
                return
            alone = asyncio.run(measure(1, options.seconds))[0]
            together = asyncio.run(measure(options.clients, options.seconds))[0]
            print(f"one client           {alone:8.2f} sentences/s    1.00 ×")
            print(f"{options.clients} clients at once {together:10.2f} sentences/s {together / alone:7.2f} ×")
        finally:
            server.terminate()
            server.wait(20)


if __name__ == "__main__":
    main()
