"""Speed of the data path: preparing a corpus, and making training batches with and without random segmentations.

    python bench/data_speed.py                               # 200,000 sentence pairs of the built-in grammar
    python bench/data_speed.py --size 2000 --tokens 1000     # a quick check
    python bench/data_speed.py train.de train.en             # other files

Preparing is what `regard train` does before the first update: reading, cleaning and hashing the files, and tokenising
them into a new cache folder; training the tokenizer does not count. Batches are made by one thread. Their speed
is in real tokens of both sides per second, in the first epoch (words are met for the first time) and in the next.
"""

import argparse
import os
import tempfile
import time
from contextlib import closing
from pathlib import Path

import numpy as np

from regard.data.batch_order import BatchConfig, PairBatches
from regard.data.builtin.datasets import DatasetOptions, write_dataset
from regard.data.pair_store import PairStore, open_store
from regard.data.parallel_corpus import Corpus
from regard.text.tokenizer import SentencePieceTokenizer, TokenizerConfig, TokenizerPair, train_tokenizer
from regard.text.vocab import PAD
from regard.train.tasks.translation import resampling

MODES = {
    "plain": {"kind": "bpe"},
    "BPE-dropout 0.1": {"kind": "bpe", "dropout": 0.1},
    "unigram sampling 0.2": {"kind": "unigram", "alpha": 0.2},
}


def prepare(paths: tuple[Path, ...], config: TokenizerConfig, folder: Path) -> tuple[PairStore, TokenizerPair]:
    """Read and tokenise a corpus, print how long each part takes, and return the store."""
    start = time.perf_counter()
    with closing(Corpus(paths).read()) as corpus:
        read = time.perf_counter()
        sides = [side for pair in corpus for side in pair]
        tokenizer = train_tokenizer(sides, config)
        assert isinstance(tokenizer, SentencePieceTokenizer)
        trained = time.perf_counter()
        tokenizers = TokenizerPair(tokenizer, tokenizer)
        store = open_store(corpus, tokenizers, max_tokens=255, folder=folder)
        end = time.perf_counter()
        n = len(corpus)
    print(
        f"preparing {n:,} pairs, {config.kind}: {n / (read - start + end - trained):,.0f} pairs/s "
        f"(read {read - start:.1f} s, tokenise and store {end - trained:.1f} s; "
        f"training the tokenizer took {trained - read:.1f} s more)"
    )
    return store, tokenizers


def tokens_per_second(batches: PairBatches, epoch: int) -> float:
    """Return the real tokens of both sides per second of the batches of an epoch."""
    plan, tokens, start = batches.plan(epoch), 0, time.perf_counter()
    for index in range(len(plan)):
        batch = batches.batch(epoch, index)
        tokens += int((batch.src != PAD).sum() + (batch.tgt_out != PAD).sum())
    return tokens / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="two line-aligned files, or one TSV or JSONL")
    parser.add_argument("--size", type=int, default=200_000, help="pairs of the built-in grammar, without files")
    parser.add_argument("--tokens", type=int, default=25_000, help="padded tokens per batch and side")
    parser.add_argument("--vocab", type=int, default=8_000)
    args = parser.parse_args()
    print(f"{os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = tuple(args.files) or tuple(write_dataset("grammar", folder / "data", DatasetOptions(args.size))[:2])
        for kind in ("bpe", "unigram"):
            modes = {mode: options for mode, options in MODES.items() if options["kind"] == kind}
            config = TokenizerConfig.parse({"kind": kind, "vocab_size": args.vocab})
            store, tokenizers = prepare(paths, config, folder)
            for mode, options in modes.items():
                resample = resampling(tokenizers, TokenizerConfig.parse(options))
                config_ = BatchConfig(tokens=args.tokens)
                batches = PairBatches(store, np.arange(len(store)), config_, seed=1, resample=resample)
                first, later = (tokens_per_second(batches, epoch) for epoch in (0, 1))
                print(f"{mode:22} {first:12,.0f} tokens/s in the first epoch, {later:12,.0f} in the next")


if __name__ == "__main__":
    main()
