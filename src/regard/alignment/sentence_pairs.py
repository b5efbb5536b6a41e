"""Aligning the words of sentence pairs with one translator, or with two of opposite directions."""

from collections.abc import Callable, Iterator, Sequence

from regard.alignment.pair_aligner import PairAligner
from regard.data.word_alignments import Links
from regard.errors import UserError
from regard.models.record import AttentionRecord
from regard.pipelines.length_limit import TooLongError
from regard.pipelines.translator import Translator

_WINDOW = 2048  # pairs that are sorted by length and aligned in batches


def record_pairs(
    translator: Translator, sources: Sequence[str], targets: Sequence[str], to: str | None = None
) -> Iterator[AttentionRecord]:
    """Record the attention for each pair while the model is forced to generate the target."""
    _check_counts(sources, targets)
    pairs = enumerate(zip(sources, targets, strict=True), start=1)
    return (
        _record_pair(translator, number, translator.with_tag(source, to), target) for number, (source, target) in pairs
    )


def _record_pair(translator: Translator, number: int, source: str, target: str) -> AttentionRecord:
    try:
        return translator.record(source, target)
    except TooLongError as error:
        raise TooLongError(f"pair {number:,}: {error}") from None


def _check_counts(sources: Sequence[str], targets: Sequence[str]) -> None:
    if len(sources) != len(targets):
        raise UserError(
            f"there are {len(sources):,} sources but {len(targets):,} targets; line n must belong to line n"
        )


def align_pairs(
    translator: Translator,
    sources: Sequence[str],
    targets: Sequence[str],
    reverse: Translator | None = None,
    on_too_long: Callable[[TooLongError], None] | None = None,
    to: str | None = None,
) -> Iterator[Links]:
    """Return the links of each pair; with `reverse`, a model of the opposite direction, only those that both find.

    `to` is the language of the targets, for a model with several target languages.
    A pair with a side that is too long is an error or, if there is a function `on_too_long` to report it, has no links.
    """
    _check_counts(sources, targets)
    links_per_pair = _links_per_pair(translator, sources, targets, on_too_long, to)
    if reverse is None:
        return links_per_pair
    target = translator.directions.find(to).target
    source, *others = [direction.source for direction in translator.directions if direction.target == target]
    if others:
        names = ", ".join((source, *others))
        raise UserError(f"the texts may be {names}, so a model of the opposite direction cannot align them too")
    back = source if len(reverse.directions.targets) > 1 else None
    reversed_links = _links_per_pair(reverse, targets, sources, on_too_long, back)
    return (intersect_links(links, other) for links, other in zip(links_per_pair, reversed_links, strict=True))


def intersect_links(links: Links, reverse: Links) -> Links:
    """Return the links that a model of the opposite direction finds too; its links are (target, source)."""
    return {(i, j) for i, j in links if (j, i) in reverse}


def _links_per_pair(
    translator: Translator,
    sources: Sequence[str],
    targets: Sequence[str],
    on_too_long: Callable[[TooLongError], None] | None,
    to: str | None,
) -> Iterator[Links]:
    align = PairAligner(translator, to)
    for start in range(0, len(sources), _WINDOW):
        window = slice(start, start + _WINDOW)
        for number, links in enumerate(align(sources[window], targets[window]), start=start + 1):
            if isinstance(links, set):
                yield links
                continue
            error = TooLongError(f"pair {number:,}: {links}")
            if on_too_long is None:
                raise error
            on_too_long(error)
            yield set()
