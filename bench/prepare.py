"""Speed and memory of `regard data prepare`, and of the plan of an epoch of 100 million pairs.

    python bench/prepare.py                                    # 0.2 and 2 million pairs, one and two processes
    python bench/prepare.py --sizes 200000 2000000 20000000    # takes a while, and 12 GB of disk
    python bench/prepare.py --like train.en train.de           # the pairs of a real corpus, with some words replaced
    python bench/prepare.py --plan 100000000                   # only the plan of an epoch, from synthetic lengths

Generated sentences have words of a Zipf vocabulary and about 14 words per side. Time is that of the whole command
without starting Python: reading, filtering, training the tokenizer on at most a million pairs, tokenising, writing. The
time of the tokenizer is also printed by itself, because it does not grow beyond a million pairs. Processor time is that
of all processes, and does not depend on what else the machine does. Memory is the largest anonymous memory of any
process of the job, without the shared pages of mapped files, which the system may drop.
"""

import argparse
import os
import resource
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from regard.data.data_file import read_lines
from regard.data.prepared.task_pool import open_pool

# What imports torch is imported where it is needed: the processes of the pool import this file, too.

VOCABULARY = 500_000
CONSONANTS, VOWELS = ("bcdfghklmnprstvw", "bdfgklmnprstzh"), ("aeiou", "aäeioöuü")


def make_words(consonants: str, vowels: str) -> list[str]:
    """Return words of one to four syllables; frequent ones are short."""
    syllables = [first + second for first in consonants for second in vowels]
    words = []
    for number in range(1, VOCABULARY + 1):
        word = ""
        while number:
            number, syllable = divmod(number, len(syllables))
            word += syllables[syllable]
        words.append(word)
    return words


def random_ranks(generator: np.random.Generator, n: int) -> list[int]:
    """Return ranks of words: half of them are among the first 50, and one in 25 is beyond the first 50,000."""
    return (VOCABULARY ** (1 - np.sqrt(1 - generator.random(n)))).astype(np.int64).tolist()


def generated(n: int) -> Iterator[tuple[list[str], list[str]]]:
    """Yield blocks of sources and targets; one pair in fifty is a duplicate."""
    generator = np.random.Generator(np.random.Philox(1))
    vocabularies = [["", *make_words(*letters)] for letters in zip(CONSONANTS, VOWELS, strict=True)]
    for start in range(0, n, 10_000):
        size = min(10_000, n - start)
        lengths = np.clip(generator.lognormal(2.6, 0.5, size).astype(int), 1, 150)
        blocks = []
        for words in vocabularies:
            counts = np.maximum(1, lengths * generator.normal(1, 0.15, size)).astype(int)
            chosen, end, block = [words[i] for i in random_ranks(generator, counts.sum())], 0, []
            for count in counts.tolist():
                block.append(" ".join(chosen[end : end + count]) + ".")
                end += count
            blocks.append(block)
        for i in generator.integers(1, size, size // 50).tolist() if size > 1 else ():
            blocks[0][i], blocks[1][i] = blocks[0][i - 1], blocks[1][i - 1]
        yield blocks[0], blocks[1]


def resampled(n: int, files: list[Path]) -> Iterator[tuple[list[str], list[str]]]:
    """Yield blocks of pairs of a corpus, in which a word of each side is replaced, so that few are duplicates."""
    generator = np.random.Generator(np.random.Philox(1))
    sides = [[line.decode() for line in read_lines(path)] for path in files]
    for start in range(0, n, 10_000):
        size = min(10_000, n - start)
        rows, others = (generator.integers(len(sides[0]), size=size).tolist() for _ in range(2))
        blocks = []
        for side in sides:
            texts = []
            for row, other, place in zip(rows, others, generator.random(size).tolist(), strict=True):
                words, more = side[row].split(), side[other].split()
                words[int(place * len(words))] = more[int(place * len(more))]
                texts.append(" ".join(words))
            blocks.append(texts)
        yield blocks[0], blocks[1]


def write_corpus(folder: Path, blocks: Iterator[tuple[list[str], list[str]]]) -> tuple[Path, Path]:
    paths = folder / "train.en", folder / "train.de"
    with paths[0].open("w", encoding="utf-8") as src, paths[1].open("w", encoding="utf-8") as tgt:
        for sources, targets in blocks:
            src.write("".join(text + "\n" for text in sources))
            tgt.write("".join(text + "\n" for text in targets))
    return paths


class MemoryMonitor:
    """Watches the anonymous memory of this process and its children."""

    def __init__(self) -> None:
        self.peak, self._stop = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "MemoryMonitor":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.2):
            children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
            self.peak = max(self.peak, *(anonymous_memory(pid) for pid in ("self", *children)))


def anonymous_memory(pid: str = "self") -> int:
    """Return the bytes of memory of a process that belong to no file."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return int(fields.get("RssAnon", "0 kB").split()[0]) << 10


def measure(files: tuple[Path, Path], n: int, folder: Path, workers: int, vocab: int) -> None:
    """Prepare a corpus and print how long it takes."""
    from regard.data.parallel_corpus import Corpus
    from regard.train import prepare_data as preparation
    from regard.train.recipe import load_recipe

    recipe = load_recipe("base", settings=[f"tokenizer.vocab_size={vocab}"])
    options = preparation.PreparationOptions(recipe, ("en", "de"))
    train, tokenizer = preparation.train_tokenizers, [0.0, 0.0]

    def timed(*args: object) -> object:
        wall, cpu = time.perf_counter(), time.process_time()
        result = train(*args)  # type: ignore[arg-type]
        tokenizer[:] = time.perf_counter() - wall, time.process_time() - cpu
        return result

    preparation.train_tokenizers = timed  # type: ignore[assignment]
    marks: list[tuple[str, float]] = []

    def progress(activity: str, n_done: int, total: int | None = None) -> None:
        if not marks or marks[-1][0] != activity:
            marks.append((activity, time.perf_counter()))

    out = folder / f"out-{workers}"
    out.mkdir()
    before = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    with MemoryMonitor() as memory:
        start = time.perf_counter()
        with open_pool(workers) as pool:
            corpus = preparation.prepare_data([Corpus(files)], out, options, pool, progress)
        elapsed = time.perf_counter() - start
    preparation.train_tokenizers = train
    after = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(b.ru_utime + b.ru_stime - a.ru_utime - a.ru_stime for a, b in zip(before, after, strict=True))
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    steps = [
        f"{name} {end - begin:.1f} s"
        for (name, begin), (_, end) in zip(marks, [*marks[1:], ("", start + elapsed)], strict=True)
    ]
    wall, own = elapsed - tokenizer[0], 1e6 * (cpu - tokenizer[1]) / n
    processes = f"{workers} process{'es' if workers > 1 else ''}"
    print(
        f"{n:>11,} pairs, {processes}: {n / elapsed:9,.0f} pairs/s; {n / wall:9,.0f} without training the tokenizer "
        f"({tokenizer[0]:.1f} s, {tokenizer[1]:.1f} s of processor time); {own:.1f} µs of processor time per pair, "
        f"that is {1e6 / own:9,.0f} pairs/s and core; at most {memory.peak >> 20} MiB per process; "
        f"{size / n:.0f} bytes per pair\n{'':13}({', '.join(steps)}; {len(corpus.pairs):,} pairs kept)",
        flush=True,
    )


def measure_plan(n: int, folder: Path) -> None:
    """Plan all batches of an epoch of n pairs of random lengths, whose offsets are memory-mapped."""
    from regard.data.batch_order import BatchConfig, PairBatches, StreamPosition
    from regard.data.pair_store import PairStore
    from regard.data.row_windows import RowsExcept

    generator, ends = np.random.Generator(np.random.Philox(1)), []
    for side in ("src", "tgt"):
        with (folder / f"{side}.ends").open("wb") as file:
            last = 0
            file.write(np.int64(0).tobytes())
            for start in range(0, n, 1 << 20):
                lengths = np.clip(generator.lognormal(3.2, 0.6, min(1 << 20, n - start)), 1, 255).astype(np.int64)
                file.write((last + np.cumsum(lengths)).tobytes())
                last += int(lengths.sum())
        ends.append(np.memmap(folder / f"{side}.ends", dtype=np.int64, mode="r"))
    none = np.empty(0, dtype=np.uint16)
    store = PairStore(none, ends[0], none, ends[1], none.astype(np.int64), (), "")
    batches = PairBatches(store, RowsExcept(0, n, np.arange(0, n, n // 1000)), BatchConfig(tokens=25_000), seed=1)
    before = anonymous_memory()
    with MemoryMonitor() as memory:
        cpu, start, total = time.process_time(), time.perf_counter(), 0
        for window in range(batches.n_windows(0)):
            total += len(batches.window(0, window))
            if window == 0:
                first = time.perf_counter() - start
        cpu, elapsed = time.process_time() - cpu, time.perf_counter() - start
    start = time.perf_counter()
    batches._find_window(StreamPosition(0, total - 1))
    resume = time.perf_counter() - start
    print(
        f"plan of {n:,} pairs: {total:,} batches in {batches.n_windows(0)} windows; the first after {first:.1f} s, "
        f"all in {elapsed:.1f} s ({cpu:.1f} s of processor time); {(memory.peak - before) / 2**20:.0f} MiB more than "
        f"before; the last batch is found in {resume:.1f} s when a run is resumed there"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=int, default=[200_000, 2_000_000], help="pairs to generate")
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2], help="processes")
    parser.add_argument("--like", nargs=2, type=Path, help="two line-aligned files to resample")
    parser.add_argument("--vocab", type=int, default=16_000)
    parser.add_argument("--plan", type=int, help="only plan an epoch of so many pairs")
    parser.add_argument("--folder", type=Path, help="for temporary files")
    args = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    if args.plan:
        with tempfile.TemporaryDirectory(dir=args.folder) as name:
            measure_plan(args.plan, Path(name))
        return
    for n in args.sizes:
        with tempfile.TemporaryDirectory(dir=args.folder) as name:
            folder = Path(name)
            files = write_corpus(folder, resampled(n, args.like) if args.like else generated(n))
            for workers in args.workers:
                measure(files, n, folder, workers, args.vocab)


if __name__ == "__main__":
    main()
