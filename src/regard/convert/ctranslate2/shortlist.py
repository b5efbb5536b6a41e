"""A shortlist: the target tokens that can translate each source token, counted in translations of the model itself."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ctranslate2

VMAP = "vmap.txt"
_HELD_OUT = 10  # every tenth text is not counted, but translated with the shortlist to check it
_MOST_HELD_OUT = 500
_BATCH = 32


@dataclass(frozen=True)
class Translated:
    """Tokens of a source and of its translation, and the attention [target, source] of the alignment head"""

    source: list[str]
    target: list[str]
    attention: list[list[float]]


def write_shortlist(folder: Path, sources: Sequence[Sequence[str]], n: int, max_len: int, joint: bool) -> str:
    """Write `vmap.txt` into a CTranslate2 folder; return what its README says about it.

    A source token gets the n target tokens that attend to it most in the model's own translations of `sources` (lists
    of tokens) and, if the vocabulary is joint, itself; the n most frequent target tokens are always allowed. A
    translation has at most `max_len` tokens.
    """
    tests = sources[::_HELD_OUT][:_MOST_HELD_OUT]
    counted = [source for i, source in enumerate(sources) if i % _HELD_OUT or i >= _HELD_OUT * _MOST_HELD_OUT]
    lines = _shortlist(_translate(folder, counted or tests, max_len), n, joint)
    (folder / VMAP).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    full = [translated.target for translated in _translate(folder, tests, max_len)]
    short = [translated.target for translated in _translate(folder, tests, max_len, use_vmap=True)]
    equal = sum(one == other for one, other in zip(full, short, strict=True))
    return (
        f"**Shortlist.** `{VMAP}` was made from the model's translations of {len(counted):,} texts, {n} target tokens "
        f"for each source token. Use it with `translate_batch(…, use_vmap=True)`. Of {len(tests):,} other texts "
        f"{equal:,} have the same translation with it as without it (greedy search)."
    )


def _translate(
    folder: Path, sources: Sequence[Sequence[str]], max_len: int, use_vmap: bool = False
) -> list[Translated]:
    translator: Any = ctranslate2.Translator(str(folder), device="cpu")
    results = translator.translate_batch(
        [list(source) for source in sources],
        beam_size=1,
        return_attention=True,
        max_batch_size=_BATCH,
        max_input_length=0,
        max_decoding_length=max_len,
        use_vmap=use_vmap,
    )
    return [
        Translated(list(source), result.hypotheses[0], result.attention[0])
        for source, result in zip(sources, results, strict=True)
    ]


def _shortlist(translations: Iterable[Translated], n: int, joint: bool) -> list[str]:
    """Return the lines of `vmap.txt`: a source token, a tab, its target tokens. The first line is for all sources."""
    frequent: Counter[str] = Counter()
    weights: dict[str, Counter[str]] = defaultdict(Counter)
    for pair in translations:
        frequent.update(pair.target)
        for target, row in zip(pair.target, pair.attention, strict=True):
            for source, weight in zip(pair.source, row, strict=True):
                weights[source][target] += weight  # type: ignore[assignment]  # a Counter of fractions
    lines = [f"\t{' '.join(_best(frequent, n))}"]
    for source in sorted(weights):
        itself = [source] if joint else []
        lines.append(f"{source}\t{' '.join(dict.fromkeys([*itself, *_best(weights[source], n)]))}")
    return lines


def _best(counts: Counter[str], n: int) -> list[str]:
    """Return the n tokens with the highest counts; of equal ones the first in the alphabet."""
    return sorted(counts, key=lambda token: (-counts[token], token))[:n]
