"""Look inside a model: the search for an output, the attention of all heads, one head in detail, the next token."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.models.encoder_only import EncoderOnly
from regard.models.intervention import ChangedModel, Intervention
from regard.models.record import AttentionRecord, HeadRecord
from regard.pipelines.base import Pipeline, check_hypotheses
from regard.pipelines.encoded_input import EncodedInput
from regard.pipelines.predictions import Predictions, forced_log_probs, scored_tokens, token_log_probs
from regard.pipelines.what_if import PatchActivations
from regard.search.decode import DecodeConfig, decode, length_limits
from regard.search.length_penalty import normalise_score
from regard.search.protocols import Hypothesis, SearchStep
from regard.search.search_tree import ROOT, Node, SearchTree
from regard.text.vocab import EOS

_NODE_BYTES = 300  # of a node of the search tree in memory, without its ids
Report = Callable[[str], None]


@dataclass(frozen=True)
class TraceQuery:
    """What to search for, and with what the model runs."""

    pipeline: Pipeline
    encoded: EncodedInput
    config: DecodeConfig
    prefix: tuple[int, ...] = ()
    """Ids that the output starts with"""
    intervention: Intervention | None = None
    target: tuple[int, ...] | None = None
    """Trace the generation of these ids instead of searching"""
    hypothesis: int = 0
    """Which hypothesis to trace, 0 = the best"""
    n_top: int = 8
    """How many of the most likely tokens are recorded at each position"""
    n_cut: int = 0
    """Tokens of the input that the model does not read"""
    patch: PatchActivations | None = None
    """The activations of another input that the intervention has"""

    def batch(self, target: tuple[int, ...]) -> Batch:
        """The input with a forced target"""
        return self.encoded.batch(target)

    @property
    def length_limit(self) -> int:
        """Tokens after which the search ends an output"""
        model, batch = self.pipeline.traced_model, self.encoded.batch()
        assert not isinstance(model, EncoderOnly)
        limits = [length_limits(batch.lengths, self.config, [self.prefix]), model.max_target_len(batch)]
        return min(int(limit) for limit in limits if limit is not None)


@dataclass(frozen=True)
class TracedHypothesis:
    """An output, and how it ended."""

    ids: tuple[int, ...]
    score: float
    log_prob: float
    node: str
    """Name of the node of the search tree where it ends"""
    is_cut: bool
    """Whether it was ended at the maximum length"""
    log_probs: tuple[float, ...]
    """Of each token and, unless it was cut, of EOS"""

    @property
    def target(self) -> tuple[int, ...]:
        return self.ids if self.is_cut else (*self.ids, EOS)


@dataclass(frozen=True)
class TraceResult:
    query: TraceQuery
    hypotheses: tuple[TracedHypothesis, ...]
    steps: tuple[tuple[Node, ...], ...]
    """The candidates of each step of the search"""
    target: tuple[int, ...]
    """The ids whose generation is recorded, with EOS if the output ended"""
    predictions: Predictions
    """At each position of the target; of an encoder-only model, of the source, or of the label"""

    @property
    def n_bytes(self) -> int:
        """Without the attention weights, which are stored elsewhere or computed again"""
        nodes = sum(_NODE_BYTES + 8 * len(node.ids) for step in self.steps for node in step)
        return nodes + self.predictions.n_bytes + self.query.encoded.src.nbytes

    @property
    def target_tokens(self) -> list[str]:
        return self.query.pipeline.tgt_tokenizer.tokens(self.target)

    def record(self) -> AttentionRecord:
        """Compute the attention of all heads."""
        return self.query.pipeline.trace(self.query.encoded, self.target, self.query.intervention)[1]


class TreeObserver:
    """A step observer that records the search, reports its best output, and stops it when it is cancelled."""

    def __init__(self, tree: SearchTree, pipeline: Pipeline, is_cancelled: Callable[[], bool], report: Report | None):
        self.tree = tree
        self.pipeline = pipeline
        self.is_cancelled = is_cancelled
        self.report = report
        self.reported = ""

    def __call__(self, step: SearchStep) -> Tensor | None:
        self.tree(step)
        if self.report is not None and self.tree.best:
            text = self.pipeline.decode_target(self.tree.best)
            if text != self.reported:
                self.report(text)
                self.reported = text
        return torch.ones_like(step.sentences, dtype=torch.bool) if self.is_cancelled() else None


@torch.inference_mode()
def run_trace(
    query: TraceQuery, is_cancelled: Callable[[], bool] = lambda: False, report: Report | None = None
) -> TraceResult | None:
    """Search unless the target is given, and predict every token on the way to it; None if it was cancelled.

    `report` is called with the best output so far.
    """
    if isinstance(query.pipeline.traced_model, EncoderOnly):
        return _trace_encoder(query)
    n_beams = query.config.n_best if query.config.sampling else query.config.beam
    tree = SearchTree(n_beams, query.config.length_penalty)
    hypotheses: tuple[TracedHypothesis, ...] = ()
    steps: tuple[tuple[Node, ...], ...] = ()
    target = query.target
    if target is None:
        masked = ChangedModel(query.pipeline.traced_model, query.intervention)
        observer = TreeObserver(tree, query.pipeline, is_cancelled, report)
        [found] = decode(masked, query.encoded.batch(), query.config, [query.prefix], observer)
        if is_cancelled():
            return None
        hypotheses = _traced_hypotheses(query, check_hypotheses(found), tree)
        steps = tuple(tree.steps[: query.length_limit])  # what follows are ends that were forced
        target = hypotheses[min(query.hypothesis, len(hypotheses) - 1)].target
    log_probs = token_log_probs(query.pipeline.traced_model, query.batch(target), query.intervention)
    predictions = Predictions.of(log_probs, target, query.n_top)
    return TraceResult(query, hypotheses, steps, target, predictions)


def _trace_encoder(query: TraceQuery) -> TraceResult:
    """Trace an encoder-only model, which has no output to search for: labels, or the tokens of its text."""
    model, pipeline = query.pipeline.traced_model, query.pipeline
    assert isinstance(model, EncoderOnly)
    target = tuple(pipeline.target_ids(query.encoded))
    log_probs = token_log_probs(model, query.batch(()), query.intervention)
    tokens = [int(log_probs[0].argmax())] if model.predicts_label else [*query.encoded.src_ids, EOS]
    return TraceResult(query, (), (), target, Predictions.of(log_probs, tokens, query.n_top))


def _traced_hypotheses(
    query: TraceQuery, hypotheses: Sequence[Hypothesis], tree: SearchTree
) -> tuple[TracedHypothesis, ...]:
    limit = query.length_limit
    last_nodes = {node.ids: node.name for step in tree.steps[:limit] for node in step if node.state == "kept"}
    last_nodes |= {node.ids[:-1]: node.name for step in tree.steps[:limit] for node in step if node.state == "ended"}
    are_cut = [len(hypothesis.ids) >= limit for hypothesis in hypotheses]
    targets = [h.ids if is_cut else (*h.ids, EOS) for h, is_cut in zip(hypotheses, are_cut, strict=True)]
    scores = forced_log_probs(query.pipeline.traced_model, query.encoded, targets, query.intervention)
    traced = []
    for hypothesis, is_cut, log_probs in zip(hypotheses, are_cut, scores, strict=True):
        log_prob, score = hypothesis.log_prob, hypothesis.score
        if is_cut:  # without the end that was forced
            log_prob = sum(log_probs)
            score = normalise_score(log_prob, len(log_probs), query.config.length_penalty)
        node = last_nodes.get(hypothesis.ids, ROOT)
        traced.append(TracedHypothesis(hypothesis.ids, score, log_prob, node, is_cut, log_probs))
    return tuple(traced)


@torch.inference_mode()
def score_again(baseline: TraceResult, query: TraceQuery) -> tuple[float, ...] | None:
    """Return log p of the tokens of another trace with the input and the changes of this query.

    None if the positions do not correspond: the tokens of a text that another text does not have.
    """
    tokens, batch = baseline.predictions.tokens, query.batch(baseline.target)
    model = query.pipeline.traced_model
    if isinstance(model, EncoderOnly) and not model.predicts_label and len(tokens) != batch.src.shape[1]:
        return None
    return tuple(scored_tokens(model, batch, tokens, query.intervention)[0])


def trace_head(result: TraceResult, kind: str, layer: int, head: int) -> HeadRecord:
    """Trace one head of a result with its queries, keys and values.

    They are computed again instead of stored, because those of all heads would take too much memory.
    """
    query = result.query
    traces, record = query.pipeline.trace(query.encoded, result.target, query.intervention)
    return HeadRecord.from_traces(traces, record, kind, layer, head)


@torch.inference_mode()
def next_token_log_probs(
    pipeline: Pipeline, encoded: EncodedInput, prefix: tuple[int, ...], intervention: Intervention | None = None
) -> Tensor:
    """log p [V] of the token that follows the prefix"""
    return token_log_probs(pipeline.traced_model, encoded.batch([*prefix, EOS]), intervention)[-1]
