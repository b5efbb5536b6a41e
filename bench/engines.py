"""Speed of the engines on the CPU, in one run: PyTorch against CTranslate2 in float32 and int8.

    python -m bench.engines DIR SOURCES

DIR is a model directory, SOURCES a file of sentences. The table has the time of the first sentence and of the first
32, by greedy search and with beam 5, and that of PyTorch divided by it; the last line the time that `regard translate`
takes from its start to the translation of one sentence.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import regard
from regard.pipelines.translator import Translator

ENGINES = ("torch", "ctranslate2", "ctranslate2:int8")
SIZES = ((1, 1), (1, 5), (32, 1), (32, 5))
"""(sentences, beam)"""
_ROUNDS = 7


def median_times(calls: dict[str, Callable[[], object]], rounds: int = _ROUNDS) -> dict[str, float]:
    """Return the median seconds of each call; the calls take turns, so that other work disturbs all of them."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def decoding(folder: Path, texts: list[str]) -> None:
    translators = {name: regard.load(folder, device="cpu", engine=name) for name in ENGINES}
    print("| sentences | beam | " + " | ".join(ENGINES) + " |")
    print("|---|---|" + "---|" * len(ENGINES))
    for n, beam in SIZES:

        def call(translator: Translator, n: int = n, beam: int = beam) -> Callable[[], object]:
            return lambda: translator.translate(texts[:n], beam=beam)

        times = median_times({name: call(each) for name, each in translators.items() if isinstance(each, Translator)})
        cells = [f"{1000 * t:.1f} ms ({times['torch'] / t:.2f} ×)" for t in times.values()]
        print(f"| {n} | {beam} | " + " | ".join(cells) + " |", flush=True)


def cold_start(folder: Path, text: str) -> None:
    def command(engine: str) -> Callable[[], object]:
        arguments = [sys.executable, "-m", "regard", "translate", str(folder), "--engine", engine, "--text", text]
        return lambda: subprocess.run([*arguments, "--device", "cpu"], check=True, capture_output=True)

    times = median_times({name: command(name) for name in ENGINES}, rounds=3)
    print("cold start: " + ", ".join(f"{name} {t:.2f} s" for name, t in times.items()))


if __name__ == "__main__":
    model, sources = Path(sys.argv[1]), Path(sys.argv[2])
    lines = sources.read_text(encoding="utf-8").splitlines()
    decoding(model, lines)
    cold_start(model, lines[0])
