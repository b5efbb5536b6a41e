"""What can be explained, by name and by the rows of the lectures that it shows."""

from collections.abc import Callable
from dataclasses import dataclass

from regard.errors import UserError
from regard.explain import (
    attention,
    beam,
    equivariance,
    greedy,
    heads,
    masking,
    mixing,
    positions,
    similarity,
    translation,
    warmup,
)
from regard.explain import bpe as subwords
from regard.explain import kv_cache as caching
from regard.explain import label_smoothing as smoothing
from regard.explain.explanation import Explanation
from regard.explain.model_input import ModelInput


@dataclass(frozen=True)
class Topic:
    name: str
    rows: tuple[str, ...]
    line: str
    lecture: Callable[[], Explanation]
    """On the lecture's figures"""
    own: Callable[[ModelInput], Explanation]
    """On a model and a sentence of one's own"""


TOPICS = (
    Topic("dot", ("W1",), "the dot product of two vectors", similarity.dot, similarity.dot_of_own),
    Topic("cosine", ("W2",), "how alike words are, whatever their length", similarity.cosine, similarity.cosine_of_own),
    Topic("mixing", ("W3", "W4"), "a word becomes a mixture of its sentence", mixing.mixing, mixing.mixing_of_own),
    Topic(
        "attention", ("W5",), "queries, keys, scores, weights, output", attention.attention, attention.attention_of_own
    ),
    Topic("masking", ("S9",), "the future is not seen", masking.masking, masking.masking_of_own),
    Topic("shapes", ("W6",), "what has which shape", heads.shapes, heads.shapes_of_own),
    Topic("heads", ("S10",), "several heads side by side", heads.heads, heads.heads_of_own),
    Topic("positions", ("W7", "P1"), "where a word stands", positions.positions, positions.positions_of_own),
    Topic(
        "equivariance",
        ("W9", "P3"),
        "permuted words give permuted outputs",
        equivariance.equivariance,
        equivariance.equivariance_of_own,
    ),
    Topic(
        "translation",
        ("W10",),
        "the adjective moves behind its noun",
        translation.translation,
        translation.translation_of_own,
    ),
    Topic("greedy", ("W8", "P11"), "the likeliest token each time", greedy.greedy, greedy.greedy_of_own),
    Topic("beam", ("P12",), "several hypotheses side by side", beam.beam, beam.beam_of_own),
    Topic("cache", ("S18",), "keys and values are kept", caching.cache, caching.cache_of_own),
    Topic("warmup", ("P6",), "the learning rate rises, then falls", warmup.warmup, warmup.warmup_of_own),
    Topic(
        "smoothing", ("P7",), "a little of the truth for every word", smoothing.smoothing, smoothing.smoothing_of_own
    ),
    Topic("bpe", ("P9",), "words in pieces, by learnt merges", subwords.bpe, subwords.bpe_of_own),
)


def topic_named(name: str) -> Topic:
    """By its name, or by a row: `attention` and `W5` are one"""
    for topic in TOPICS:
        if name.lower() == topic.name or name.upper() in topic.rows:
            return topic
    raise UserError(f"topic '{name}' is unknown; choose one of {', '.join(topic.name for topic in TOPICS)}")


def listed() -> str:
    """All of them, a line each"""
    widths = [
        max(len(text) for text in column) for column in zip(*((t.name, ", ".join(t.rows)) for t in TOPICS), strict=True)
    ]
    return "\n".join(f"{t.name:{widths[0]}}  {', '.join(t.rows):{widths[1]}}  {t.line}" for t in TOPICS)
