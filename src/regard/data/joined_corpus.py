"""Several corpora as one, which knows which of its pairs came from which."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from regard.data.corpus_report import CorpusReport
from regard.data.pair_table import PairTable
from regard.data.parallel_corpus import CorpusPart, ParsedCorpus
from regard.data.text_spool import JoinedTexts


@dataclass(frozen=True)
class JoinedCorpus(ParsedCorpus):
    """The pairs of several corpora, one after the other."""

    joined_parts: tuple[CorpusPart, ...]

    @property
    def parts(self) -> tuple[CorpusPart, ...]:
        return self.joined_parts


def join_corpora(corpora: Sequence[tuple[str, ParsedCorpus, str]]) -> ParsedCorpus:
    """Join corpora, each with a name for messages and a prefix of its sources."""
    ends = list(accumulate(len(corpus) for _, corpus, _ in corpora))
    parts = tuple(
        CorpusPart(name, end - len(corpus), end, corpus.report, prefix)
        for end, (name, corpus, prefix) in zip(ends, corpora, strict=True)
    )
    parsed = [corpus for _, corpus, _ in corpora]
    first = parsed[0]
    if len(parsed) == 1 and not parts[0].prefix:
        return replace(first, name=parts[0].name)
    lines, report = first.lines[:], CorpusReport()
    for corpus in parsed[1:]:
        lines.extend(corpus.lines)
    for corpus in parsed:
        report.include(corpus.report)
    content = " ".join(f"{part.prefix!r} {corpus.fingerprint}" for part, corpus in zip(parts, parsed, strict=True))
    return JoinedCorpus(
        ", ".join(part.name for part in parts),
        JoinedTexts([corpus.texts for corpus in parsed]),
        lines,
        PairTable.joined([corpus.table for corpus in parsed]),
        report,
        hashlib.sha256(content.encode()).hexdigest(),
        parts,
    )
