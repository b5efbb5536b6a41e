"""Aligning the words of sentence pairs with one translator, or with two of opposite directions."""

from collections.abc import Iterator, Sequence

from regard.data.word_alignments import Links
from regard.errors import UserError
from regard.models.record import AttentionRecord
from regard.pipelines.translator import Translator

NO_CROSS_ATTENTION = "this model has no cross attention, so it cannot align words"


def record_pairs(translator: Translator, sources: Sequence[str], targets: Sequence[str]) -> Iterator[AttentionRecord]:
    """Record the attention for each pair while the model is forced to generate the target."""
    if len(sources) != len(targets):
        raise UserError(
            f"there are {len(sources):,} sources but {len(targets):,} targets; line n must belong to line n"
        )
    return (translator.record(source, target) for source, target in zip(sources, targets, strict=True))


def align_pairs(
    translator: Translator, sources: Sequence[str], targets: Sequence[str], reverse: Translator | None = None
) -> Iterator[Links]:
    """Return the links of each pair; with `reverse`, a model of the opposite direction, only those that both find."""
    links_per_pair = _links_per_pair(translator, sources, targets)
    if reverse is None:
        return links_per_pair
    reversed_links = _links_per_pair(reverse, targets, sources)
    return (intersect_links(links, other) for links, other in zip(links_per_pair, reversed_links, strict=True))


def intersect_links(links: Links, reverse: Links) -> Links:
    """Return the links that a model of the opposite direction finds too; its links are (target, source)."""
    return {(i, j) for i, j in links if (j, i) in reverse}


def _links_per_pair(translator: Translator, sources: Sequence[str], targets: Sequence[str]) -> Iterator[Links]:
    for record in record_pairs(translator, sources, targets):
        if not record.cross.size:
            raise UserError(NO_CROSS_ATTENTION)
        yield translator.aligner(record)
