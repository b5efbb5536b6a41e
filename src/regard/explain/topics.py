"""The topics that can be explained, with their names and the lecture rows that they cover."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from regard.errors import UserError
from regard.explain.attention import explain_attention, explain_attention_on_model
from regard.explain.beam import explain_beam, explain_beam_on_model
from regard.explain.block import explain_block, explain_block_on_model
from regard.explain.bpe import explain_bpe, explain_bpe_on_model
from regard.explain.equivariance import explain_equivariance, explain_equivariance_on_model
from regard.explain.explanation import Explanation
from regard.explain.geometry import explain_geometry, explain_geometry_on_model
from regard.explain.greedy import explain_greedy, explain_greedy_on_model
from regard.explain.heads import explain_heads, explain_heads_on_model
from regard.explain.kv_cache import explain_cache, explain_cache_on_model
from regard.explain.label_smoothing import explain_smoothing, explain_smoothing_on_model
from regard.explain.linear_maps import explain_linear_maps, explain_linear_maps_on_model
from regard.explain.lookup import explain_lookup, explain_lookup_on_model
from regard.explain.masking import explain_masking, explain_masking_on_model
from regard.explain.mixing import explain_mixing, explain_mixing_on_model
from regard.explain.model_input import ModelInput
from regard.explain.nll import explain_nll, explain_nll_on_model
from regard.explain.offsets import explain_offsets, explain_offsets_on_model
from regard.explain.pooling import explain_pooling, explain_pooling_on_model
from regard.explain.positions import explain_positions, explain_positions_on_model
from regard.explain.quadratic_form import explain_quadratic_form, explain_quadratic_form_on_model
from regard.explain.seq2seq_step import explain_seq2seq_step, explain_seq2seq_step_on_model
from regard.explain.shapes import explain_shapes, explain_shapes_on_model
from regard.explain.similarity import explain_cosine, explain_cosine_on_model, explain_dot, explain_dot_on_model
from regard.explain.translation import explain_translation, explain_translation_on_model
from regard.explain.warmup import explain_warmup, explain_warmup_on_model


@dataclass(frozen=True)
class Topic:
    name: str
    rows: tuple[str, ...]
    """Numbers of the rows of the lectures"""
    summary: str
    explain_lecture: Callable[[], Explanation]
    """Explain it with the lecture's numbers"""
    explain_model: Callable[[ModelInput], Explanation]
    """Explain it with a trained model and a sentence"""


TOPICS = (
    Topic("dot", ("W1",), "the dot product of two vectors", explain_dot, explain_dot_on_model),
    Topic(
        "cosine", ("W2",), "how similar two vectors are, whatever their length", explain_cosine, explain_cosine_on_model
    ),
    Topic(
        "geometry",
        ("W11",),
        "projection, cosine, scaled dot product",
        explain_geometry,
        explain_geometry_on_model,
    ),
    Topic(
        "mixing",
        ("W3", "W4", "S7"),
        "a word becomes a mixture of its sentence",
        explain_mixing,
        explain_mixing_on_model,
    ),
    Topic(
        "linear-maps",
        ("W12",),
        "linear maps change which words are similar",
        explain_linear_maps,
        explain_linear_maps_on_model,
    ),
    Topic(
        "attention",
        ("W5", "S8"),
        "queries, keys, scores, weights, output",
        explain_attention,
        explain_attention_on_model,
    ),
    Topic(
        "lookup",
        ("P16", "P17", "S6"),
        "a look-up table, hard or soft",
        explain_lookup,
        explain_lookup_on_model,
    ),
    Topic(
        "quadratic-form",
        ("P24",),
        "only the product of W_Q and W_K matters",
        explain_quadratic_form,
        explain_quadratic_form_on_model,
    ),
    Topic("masking", ("S9",), "no word sees the words after it", explain_masking, explain_masking_on_model),
    Topic("shapes", ("W6",), "the shapes of all matrices", explain_shapes, explain_shapes_on_model),
    Topic("heads", ("S10", "P22"), "several heads in parallel", explain_heads, explain_heads_on_model),
    Topic("positions", ("W7", "P1"), "where a word is in its sentence", explain_positions, explain_positions_on_model),
    Topic("offsets", ("P25",), "a distance is a rotation of positions", explain_offsets, explain_offsets_on_model),
    Topic(
        "equivariance",
        ("W9", "W13", "P3"),
        "permuted words give permuted outputs",
        explain_equivariance,
        explain_equivariance_on_model,
    ),
    Topic(
        "block",
        ("P19", "P4", "P8"),
        "LayerNorm, attention, residual, feed-forward",
        explain_block,
        explain_block_on_model,
    ),
    Topic(
        "seq2seq-step",
        ("P20", "S1", "S2", "S3"),
        "one step of the RNN translator, to −log p",
        explain_seq2seq_step,
        explain_seq2seq_step_on_model,
    ),
    Topic("nll", ("P5", "P20"), "−log p of every reference word", explain_nll, explain_nll_on_model),
    Topic("pooling", ("P27",), "one vector for a set of any size", explain_pooling, explain_pooling_on_model),
    Topic(
        "translation",
        ("W10",),
        "the adjective moves after its noun",
        explain_translation,
        explain_translation_on_model,
    ),
    Topic("greedy", ("W8", "P11"), "the most likely token at each step", explain_greedy, explain_greedy_on_model),
    Topic("beam", ("P12",), "several hypotheses in parallel", explain_beam, explain_beam_on_model),
    Topic("cache", ("S18",), "keys and values are stored", explain_cache, explain_cache_on_model),
    Topic("warmup", ("P6",), "the learning rate rises, then falls", explain_warmup, explain_warmup_on_model),
    Topic(
        "smoothing",
        ("P7",),
        "every word gets a small part of the target",
        explain_smoothing,
        explain_smoothing_on_model,
    ),
    Topic("bpe", ("P9",), "words in pieces, by learned merges", explain_bpe, explain_bpe_on_model),
)


def find_topic(name: str) -> Topic:
    """Return the topic with this name or lecture row: `attention` and `W5` are the same."""
    for topic in TOPICS:
        if name.lower() == topic.name or name.upper() in topic.rows:
            return topic
    raise UserError(f"topic '{name}' is unknown; choose one of {', '.join(topic.name for topic in TOPICS)}")


def explain_topic(
    name: str,
    model: str | Path | None = None,
    text: str | None = None,
    *,
    kind: str | None = None,
    layer: int = 0,
    head: int = 0,
    target: str | None = None,
    step: int = 0,
) -> Explanation:
    """Work through a topic step by step: with the lecture's numbers, or with a model directory and a sentence.

    `kind`, `layer` and `head` choose the attention of the model, `step` the step of decoding; `target` is a reference
    in place of the model's own output. Notebooks show the result with formulas and tables.

    >>> explanation = regard.explain_topic("attention")
    >>> float(explanation["q₁ · k₂"][0, 0])
    1116.0
    >>> explanation = regard.explain_topic("attention", translator_dir, "a b c", kind="cross", head=1)
    >>> explanation["weights"].shape[1]  # five characters and </s>
    6
    """
    topic = find_topic(name)
    if model is None:
        if text is not None or kind is not None or target is not None or layer or head or step:
            raise UserError(
                "text, target, kind, layer, head and step have no effect without a model; give its directory"
            )
        return topic.explain_lecture()
    return topic.explain_model(ModelInput.load(Path(model), text, kind, layer, head, target, step))


def list_topics() -> str:
    """Return one line per topic: its name, its rows and its summary."""
    entries = [(topic.name, ", ".join(topic.rows), topic.summary) for topic in TOPICS]
    name_width, rows_width = (max(len(entry[i]) for entry in entries) for i in (0, 1))
    return "\n".join(f"{name:{name_width}}  {rows:{rows_width}}  {summary}" for name, rows, summary in entries)
