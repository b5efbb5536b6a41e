"""Look inside a model: the search for an output, the attention of all heads, one head in detail, the next token."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.models.encoder_only import EncoderOnly
from regard.models.head_mask import HeadMask, MaskedModel
from regard.models.record import KINDS, AttentionRecord, HeadRecord
from regard.pipelines.base import EncodedInput, Pipeline, check_hypotheses
from regard.search.decode import DecodeConfig, decode
from regard.search.protocols import Hypothesis, SearchStep
from regard.search.search_tree import ROOT, Node, SearchTree
from regard.text.vocab import EOS

_NODE_BYTES = 300  # of a node of the search tree in memory, without its ids


@dataclass(frozen=True)
class TraceQuery:
    """What to search for, and with what the model runs."""

    pipeline: Pipeline
    encoded: EncodedInput
    config: DecodeConfig
    prefix: tuple[int, ...] = ()
    """Ids that the output starts with"""
    head_mask: HeadMask | None = None
    target: tuple[int, ...] | None = None
    """Trace the generation of these ids instead of searching"""
    hypothesis: int = 0
    """Which hypothesis to trace, 0 = the best"""


@dataclass(frozen=True)
class TraceResult:
    query: TraceQuery
    hypotheses: tuple[Hypothesis, ...]
    steps: tuple[tuple[Node, ...], ...]
    """The candidates of each step of the search"""
    end_nodes: dict[tuple[int, ...], str]
    """Ids of a hypothesis → name of the node where it ends"""
    record: AttentionRecord
    target: tuple[int, ...]
    """The ids whose generation is recorded, with EOS if the output ended"""

    @property
    def n_bytes(self) -> int:
        nodes = sum(_NODE_BYTES + 8 * len(node.ids) for step in self.steps for node in step)
        weights = sum(self.record.weights(kind).nbytes for kind in KINDS)
        return nodes + weights + self.query.encoded.src.nbytes


@dataclass(frozen=True)
class CancellableTree:
    """A step observer that records the search, and stops it when it is cancelled."""

    tree: SearchTree
    is_cancelled: Callable[[], bool]

    def __call__(self, step: SearchStep) -> Tensor | None:
        self.tree(step)
        return torch.ones_like(step.sentences, dtype=torch.bool) if self.is_cancelled() else None


@torch.inference_mode()
def run_trace(query: TraceQuery, is_cancelled: Callable[[], bool] = lambda: False) -> TraceResult | None:
    """Search unless the target is given, and record the attention on the way to it; None if it was cancelled."""
    tree = SearchTree(query.config.beam, query.config.length_penalty)
    hypotheses: list[Hypothesis] = []
    target = query.target
    if target is None:
        model = query.pipeline.traced_model
        assert not isinstance(model, EncoderOnly)  # routes refuse models that generate nothing
        masked, observer = MaskedModel(model, query.head_mask), CancellableTree(tree, is_cancelled)
        [hypotheses] = decode(masked, query.encoded.batch(), query.config, [query.prefix], observer)
        if is_cancelled():
            return None
        check_hypotheses(hypotheses)
        target = (*hypotheses[min(query.hypothesis, len(hypotheses) - 1)].ids, EOS)
    _, record = query.pipeline.trace(query.encoded, target, query.head_mask)
    ended = {node.ids[:-1]: node.name for node in tree.ended}
    end_nodes = {hypothesis.ids: ended.get(hypothesis.ids, ROOT) for hypothesis in hypotheses}
    return TraceResult(query, tuple(hypotheses), tuple(tree.steps), end_nodes, record, target)


def trace_head(result: TraceResult, kind: str, layer: int, head: int) -> HeadRecord:
    """Trace one head of a result with its queries, keys and values.

    They are computed again instead of stored, because those of all heads would take too much memory.
    """
    query = result.query
    traces, record = query.pipeline.trace(query.encoded, result.target, query.head_mask)
    return HeadRecord.from_traces(traces, record, kind, layer, head)


@torch.inference_mode()
def next_token_log_probs(
    pipeline: Pipeline, encoded: EncodedInput, prefix: tuple[int, ...], head_mask: HeadMask | None = None
) -> Tensor:
    """log p [V] of the token that follows the prefix"""
    logits: Tensor = pipeline.traced_model(encoded.batch([*prefix, EOS]), head_mask)
    return logits[0, -1].double().log_softmax(-1)
