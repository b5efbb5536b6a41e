"""Files that a job makes of the user's: pairs cleaned, split and swapped, and the list of corpora of a training."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import numpy as np
import yaml

from regard.data.data_file import DataFile
from regard.data.mixture import CorpusConfig
from regard.data.pair_rules import FilterConfig
from regard.data.parallel_corpus import Corpus, ParsedCorpus, SentencePair
from regard.data.reading_progress import ReadingProgress, no_progress
from regard.data.text_output import new_text_file
from regard.files import write_atomically
from regard.train.tasks.pairs import held_out_count

T = TypeVar("T")

_SEED = 1  # of the pairs that are held out
_BETWEEN_REPORTS = 1024  # lines


def reported(items: Iterable[T], activity: str, progress: ReadingProgress, total: int | None = None) -> Iterator[T]:
    """Yield the items, and report how many of them are done."""
    for n_done, item in enumerate(items):
        if n_done % _BETWEEN_REPORTS == 0:
            progress(activity, n_done, total)
        yield item


def split_corpus(
    files: Sequence[Path],
    valid: Sequence[Path] | None,
    languages: tuple[str, str] | None,
    out: tuple[Path, Path],
    progress: ReadingProgress = no_progress,
) -> None:
    """Write the clean training pairs and the validation pairs as two TSV files, unless they are there.

    Without validation files some of the training pairs are held out: for all models of a job the same.
    """
    train_file, valid_file = out
    if train_file.exists() and valid_file.exists():
        return
    with closing(Corpus(tuple(files), languages, filter=FilterConfig()).read(progress)) as corpus:
        corpus.check_not_empty()
        if valid is not None:
            with closing(Corpus(tuple(valid), languages).read()) as pairs:
                pairs.check_not_empty()
                write_pairs(valid_file, pairs)
            write_pairs(train_file, reported(corpus, "writing", progress, len(corpus)))
            return
        rows = np.random.Generator(np.random.Philox(key=_SEED)).permutation(len(corpus))
        n_valid = held_out_count(len(corpus), corpus.report)
        write_pairs(valid_file, _select(corpus, rows[:n_valid]))
        chosen = _select(corpus, rows[n_valid:])
        write_pairs(train_file, reported(chosen, "writing", progress, len(corpus) - n_valid))


def _select(corpus: ParsedCorpus, rows: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> Iterator[SentencePair]:
    return (corpus[row] for row in np.sort(rows).tolist())


def write_pairs(path: Path, pairs: Iterable[SentencePair]) -> None:
    """Write pairs to a TSV file."""
    with new_text_file(path) as file:
        for source, target in pairs:
            file.write(f"{source}\t{target}\n".encode())


def write_sources(path: Path, pairs: Iterable[SentencePair]) -> None:
    """Write the sources of pairs, one per line."""
    with new_text_file(path) as file:
        for source, _ in pairs:
            file.write(f"{source}\n".encode())


def read_pairs(path: Path) -> Iterator[SentencePair]:
    """Yield the pairs of a TSV file of `write_pairs`."""
    for line in DataFile(path).lines():
        source, target = line.decode().split("\t")
        yield source, target


def swap_pairs(path: Path, out: Path, progress: ReadingProgress = no_progress) -> Path:
    """Write the pairs of a TSV file with swapped sides, unless that was done; return the new file."""
    if not out.exists():
        pairs = reported(read_pairs(path), "swapping", progress)
        write_pairs(out, ((target, source) for source, target in pairs))
    return out


def write_corpora(path: Path, *corpora: CorpusConfig) -> Path:
    """Write the file for `regard train --data`; return its path. The paths in it are relative to its folder."""
    entries = []
    for corpus in corpora:
        files = [os.path.relpath(file, path.parent) for file in corpus.files]
        chosen = {"tag": corpus.tag or None, "upsample": corpus.upsample if corpus.upsample > 1 else None}
        entries.append({"files": files} | {name: value for name, value in chosen.items() if value is not None})
    write_atomically(path, yaml.safe_dump({"corpora": entries}, sort_keys=False).encode())
    return path
