"""Look inside a model: the search for an output, the attention of all heads, one head in detail, the next token."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.models.encoder_only import EncoderOnly
from regard.models.intervention import ChangedModel, Intervention
from regard.models.record import AttentionRecord, HeadRecord
from regard.pipelines.base import Pipeline, check_hypotheses
from regard.pipelines.encoded_input import EncodedInput
from regard.pipelines.predictions import Predictions, forced_log_probs, scored_tokens, token_log_probs
from regard.pipelines.source_decoder import SourceDecoder, without_empty
from regard.pipelines.what_if import PatchActivations
from regard.search.decode import DecodeConfig, decode, length_limits
from regard.search.length_penalty import normalise_score
from regard.search.protocols import Hypothesis, SearchStep
from regard.search.search_tree import ROOT, Node, SearchTree
from regard.text.vocab import EOS, PAD

_NODE_BYTES = 300  # of a node of the search tree in memory, without its ids


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


class Watcher(NamedTuple):
    """Who waits for a trace."""

    is_cancelled: Callable[[], bool] = lambda: False
    report: Callable[[str], None] | None = None
    """Called with the best output so far"""


class TreeObserver:
    """A step observer that records searches, reports their best outputs, and stops those that are cancelled."""

    def __init__(self, trees: Sequence[SearchTree], pipeline: Pipeline, watchers: Sequence[Watcher]) -> None:
        self.trees = trees
        self.pipeline = pipeline
        self.watchers = watchers
        self.reported = [""] * len(trees)

    def __call__(self, step: SearchStep) -> Tensor | None:
        numbers = step.sentences.tolist()
        for row, number in enumerate(numbers):
            self.trees[number].add_step(step, row)
            self._report(number)
        stopped = [self.watchers[number].is_cancelled() for number in numbers]
        return torch.tensor(stopped, device=step.sentences.device) if any(stopped) else None

    def _report(self, number: int) -> None:
        report, best = self.watchers[number].report, self.trees[number].best
        if report is not None and best and (text := self.pipeline.decode_target(best)) != self.reported[number]:
            self.reported[number] = text
            report(text)


def run_trace(query: TraceQuery, watcher: Watcher = Watcher()) -> TraceResult | None:
    """Search unless the target is given, and predict every token on the way to it; None if it was cancelled."""
    return run_traces([query], [watcher])[0]


@torch.inference_mode()
def run_traces(queries: Sequence[TraceQuery], watchers: Sequence[Watcher]) -> list[TraceResult | None]:
    """Like `run_trace` for several queries. They must have the same model and options of search, and no intervention.

    Their outputs are searched for together.
    """
    first = queries[0]
    if isinstance(first.pipeline.traced_model, EncoderOnly):
        return [_trace_encoder(query) for query in queries]
    if first.target is not None:
        return [_predict(query, (), (), query.target or ()) for query in queries]
    n_beams = first.config.n_best if first.config.sampling else first.config.beam
    trees = [SearchTree(n_beams, first.config.length_penalty) for _ in queries]
    model = ChangedModel(first.pipeline.traced_model, first.intervention)
    observer = TreeObserver(trees, first.pipeline, watchers)
    prefixes = [query.prefix for query in queries]
    found = decode(model, _joined([query.encoded for query in queries]), first.config, prefixes, observer)
    rows = zip(queries, watchers, found, trees, strict=True)
    results = [None if watcher.is_cancelled() else _finish(query, each, tree) for query, watcher, each, tree in rows]
    empty = [i for i, result in enumerate(results) if result is not None and _should_not_be_empty(result)]
    if empty:
        config = without_empty(first.config)
        again = [replace(queries[i], config=config) for i in empty]
        for i, result in zip(empty, run_traces(again, [watchers[i] for i in empty]), strict=True):
            results[i] = result
    return results


def _should_not_be_empty(result: TraceResult) -> bool:
    """Whether an empty output is searched for again, as translations are: that of a plain search from a source."""
    query = result.query
    is_plain = not query.prefix and query.intervention is None and query.config.sampling is None
    if not is_plain or query.config.min_len or not isinstance(query.pipeline, SourceDecoder):
        return False
    return bool(result.hypotheses) and not query.pipeline.decode_target(result.hypotheses[0].ids)


def _joined(inputs: Sequence[EncodedInput]) -> Batch:
    """Make one batch of inputs; shorter texts are padded."""
    if len(inputs) == 1:
        return inputs[0].batch()
    width = max(each.src.shape[1] for each in inputs)
    rows = [torch.nn.functional.pad(each.src, (0, width - each.src.shape[1]), value=PAD) for each in inputs]
    src = torch.cat(rows if not inputs[0].src.is_floating_point() else [each.src for each in inputs])
    empty = torch.empty(len(inputs), 0, dtype=torch.int64, device=src.device)
    return Batch(src, empty, empty)


def _finish(query: TraceQuery, found: Sequence[Hypothesis], tree: SearchTree) -> TraceResult:
    hypotheses = _traced_hypotheses(query, check_hypotheses(found), tree)
    steps = tuple(tree.steps[: query.length_limit])  # what follows are ends that were forced
    return _predict(query, hypotheses, steps, hypotheses[min(query.hypothesis, len(hypotheses) - 1)].target)


def _predict(
    query: TraceQuery,
    hypotheses: tuple[TracedHypothesis, ...],
    steps: tuple[tuple[Node, ...], ...],
    target: tuple[int, ...],
) -> TraceResult:
    log_probs = token_log_probs(query.pipeline.traced_model, query.batch(target), query.intervention)
    return TraceResult(query, hypotheses, steps, target, Predictions.of(log_probs, target, query.n_top))


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
