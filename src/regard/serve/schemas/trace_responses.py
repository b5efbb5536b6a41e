"""Response bodies of traces, and of the next token."""

import math
from typing import Literal

import torch

from regard.models.encoder_only import EncoderOnly
from regard.nn.attention import MultiHeadAttention
from regard.pipelines.base import Pipeline
from regard.pipelines.predictions import Predictions
from regard.pipelines.what_if import PatchActivations
from regard.search.decode import DecodeConfig
from regard.search.sampling import SamplingConfig, filter_probabilities
from regard.search.search_tree import Node
from regard.serve.inspect import TracedHypothesis, TraceResult
from regard.serve.schemas.base import ResponseBody
from regard.serve.schemas.tokens import PieceInfo, TokenInfo
from regard.serve.schemas.v1_requests import NextTokensRequest, SiteName
from regard.text.tokenizer import Tokenizer
from regard.text.vocab import BOS, EOS, SPECIALS

_BYTES_PER_NUMBER = 4  # float32
_AXES: dict[str, tuple[Literal["source", "target"], Literal["source", "read"]]] = {
    "encoder": ("source", "source"),
    "decoder": ("target", "read"),
    "cross": ("target", "source"),
}
Ending = Literal["end", "length"]


class HypothesisInfo(ResponseBody):
    text: str
    score: float
    log_prob: float
    tokens: list[TokenInfo]
    node: str
    """The node of the search tree where the hypothesis ends"""
    ended_by: Ending
    """length: it was cut at the maximum length"""
    log_probs: list[float]
    """Of each token and, unless it was cut, of the end"""

    @classmethod
    def of(cls, pipeline: Pipeline, hypothesis: TracedHypothesis) -> "HypothesisInfo":
        return cls(
            text=pipeline.decode_target(hypothesis.ids),
            score=hypothesis.score,
            log_prob=hypothesis.log_prob,
            tokens=TokenInfo.encode(pipeline.tgt_tokenizer, hypothesis.ids),
            node=hypothesis.node,
            ended_by="length" if hypothesis.is_cut else "end",
            log_probs=list(hypothesis.log_probs),
        )


class SiteInfo(ResponseBody):
    """One kind of attention of a trace. Its weights have the shape [layers, heads, rows, columns]."""

    name: SiteName
    rows: Literal["source", "target"]
    """Row t of target is the position that reads token t of `read` and predicts token t of `target`."""
    columns: Literal["source", "read"]
    layers: int
    heads: int
    causal: bool

    @classmethod
    def list_of(cls, result: TraceResult) -> "list[SiteInfo]":
        return [
            cls.model_validate(
                {
                    "name": kind,
                    "rows": _AXES[kind][0],
                    "columns": _AXES[kind][1],
                    "layers": site.layers,
                    "heads": site.heads,
                    "causal": site.causal,
                }
            )
            for kind, site in result.query.pipeline.attention_sites().items()
        ]


class NodeInfo(ResponseBody):
    """A candidate of one step of the search."""

    node: str
    parent: str
    token: TokenInfo
    log_prob: float
    score: float
    state: Literal["kept", "pruned", "ended"]

    @classmethod
    def of(cls, tokenizer: Tokenizer, node: Node) -> "NodeInfo":
        return cls(
            node=node.name,
            parent=node.parent,
            token=TokenInfo.single(tokenizer, node.ids[-1]),
            log_prob=node.log_prob,
            score=node.score,
            state=node.state,
        )


class StepInfo(ResponseBody):
    candidates: list[NodeInfo]


class BeamInfo(ResponseBody):
    """The search: beam width, and the candidates of every step."""

    k: int
    steps: list[StepInfo]


class CacheInfo(ResponseBody):
    """What the decoder remembers of its output, and the multiplications that this saves."""

    bytes_per_token: int
    """Growth per token"""
    tokens: int
    bytes: int
    flops_without: int
    flops_with: int

    @classmethod
    def of(cls, pipeline: Pipeline, n_tokens: int) -> "CacheInfo | None":
        """None for a decoder without self-attention"""
        model = pipeline.traced_model
        modules = [m for m in model.attention_modules("decoder") if isinstance(m, MultiHeadAttention)]
        if not modules or isinstance(model, EncoderOnly):
            return None
        size = model.decoder.state_size(n_tokens)
        per_token = 2 * model.d_model * sum(module.key_value.out_features for module in modules)
        return cls(
            bytes_per_token=_BYTES_PER_NUMBER * (model.decoder.state_size(n_tokens + 1) - size),
            tokens=n_tokens,
            bytes=_BYTES_PER_NUMBER * size,
            flops_without=per_token * n_tokens * (n_tokens + 1) // 2,
            flops_with=per_token * n_tokens,
        )


class DecodingInfo(ResponseBody):
    """The options with which the output was searched for."""

    beam: int
    length_penalty: float
    max_len: int | None
    samples: int
    """0: the most likely output was searched for"""
    temperature: float
    top_k: int
    top_p: float
    seed: int

    @classmethod
    def of(cls, config: DecodeConfig) -> "DecodingInfo":
        sampling = config.sampling or SamplingConfig()
        return cls(
            beam=config.beam,
            length_penalty=config.length_penalty,
            max_len=config.max_len,
            samples=config.n_best if config.sampling else 0,
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            seed=sampling.seed,
        )


class TopTokenInfo(ResponseBody):
    token: TokenInfo
    log_prob: float


class PredictionInfo(ResponseBody):
    """What the model predicts at one position, and how much the actual token surprises it."""

    token: TokenInfo
    """The actual token"""
    log_prob: float
    entropy: float
    """In bits"""
    top: list[TopTokenInfo]
    """The most likely tokens"""

    @classmethod
    def list_of(cls, tokenizer: Tokenizer, predictions: Predictions) -> "list[PredictionInfo]":
        tops = zip(predictions.top_ids.tolist(), predictions.top_log_probs.tolist(), strict=True)
        rows = zip(
            predictions.tokens, predictions.log_probs.tolist(), predictions.entropies.tolist(), tops, strict=True
        )
        return [
            cls(
                token=TokenInfo.single(tokenizer, token),
                log_prob=log_prob,
                entropy=entropy,
                top=[
                    TopTokenInfo(token=TokenInfo.single(tokenizer, i), log_prob=value)
                    for i, value in zip(*top, strict=True)
                ],
            )
            for token, log_prob, entropy, top in rows
        ]


class BaselineInfo(ResponseBody):
    """How likely the tokens of the baseline are, then and with the input and the changes of this request."""

    log_probs_before: list[float]
    log_probs: list[float]
    delta: float
    """Change of their sum"""

    @classmethod
    def of(cls, baseline: TraceResult, log_probs: tuple[float, ...] | None) -> "BaselineInfo | None":
        if log_probs is None:
            return None
        before = baseline.predictions.log_probs.tolist()
        return cls(log_probs_before=before, log_probs=list(log_probs), delta=sum(log_probs) - sum(before))


class PatchInfo(ResponseBody):
    """The other input of a patch: what its positions are. Position i is replaced by position i."""

    source: list[PieceInfo]
    """Source tokens or regions, for the encoder"""
    read: list[PieceInfo]
    """What the decoder reads; of a decoder-only translator the positions begin with the source"""

    @classmethod
    def of(cls, patch: PatchActivations) -> "PatchInfo":
        return cls(source=PieceInfo.list_of(patch.source_tokens), read=PieceInfo.list_of(patch.read_tokens))


class TraceResponse(ResponseBody):
    id: str
    model: str
    expires: float
    """Seconds without a request for it after which the trace is deleted"""
    text: str
    """The output that is traced; of a classifier, the label"""
    written: str | None
    """The output with the case and punctuation of the request's `source`, if it has one"""
    source: list[TokenInfo]
    """Source tokens or regions of an image; empty for a language model"""
    target: list[TokenInfo]
    """What the decoder predicts at each position: the output, and its end unless it was cut"""
    read: list[PieceInfo]
    """What the decoder reads at each position: BOS and all target tokens but the last"""
    n_prompt: int
    """How many of the target tokens are the prompt of a language model or were forced by `prefix`"""
    n_cut: int
    """Tokens of the input that the model does not read, because it would be too long: the first ones of a prompt, the
    last ones of a text to classify"""
    hypotheses: list[HypothesisInfo]
    chosen: int
    """Which of the hypotheses is traced"""
    predictions: list[PredictionInfo]
    """One for each target token; of an encoder-only model one for each source token, or one, the label"""
    predicts: Literal["target", "source", "label"]
    sites: list[SiteInfo]
    beam: BeamInfo
    decoding: DecodingInfo
    cache: CacheInfo | None
    baseline: BaselineInfo | None
    """null without a baseline, or if its positions do not correspond"""
    patch: PatchInfo | None

    @classmethod
    def of(
        cls,
        trace_id: str,
        model: str,
        result: TraceResult,
        seconds: float,
        baseline: BaselineInfo | None = None,
        source: str | None = None,
    ) -> "TraceResponse":
        query, pipeline, text = result.query, result.query.pipeline, _output_text(result)
        is_image = query.encoded.src.is_floating_point()
        tokens = query.encoded.src_tokens
        src_ids = range(len(tokens)) if is_image else (*query.encoded.src_ids, EOS)[: len(tokens)]
        tokenizer = pipeline.tgt_tokenizer
        steps = [StepInfo(candidates=[NodeInfo.of(tokenizer, node) for node in step]) for step in result.steps]
        predicts = "target" if pipeline.generates else "label" if _predicts_label(pipeline) else "source"
        n_beams = query.config.n_best if query.config.sampling else query.config.beam
        return cls(
            id=trace_id,
            model=model,
            expires=seconds,
            text=text,
            written=None if source is None else pipeline.restore(source, text),
            source=TokenInfo.list_of(src_ids, tokens),
            target=TokenInfo.encode(tokenizer, result.target),
            read=PieceInfo.list_of([SPECIALS[BOS], *result.target_tokens[:-1]] if result.target else []),
            n_prompt=min(len(query.prefix), len(result.target)),
            n_cut=query.n_cut,
            hypotheses=[HypothesisInfo.of(pipeline, hypothesis) for hypothesis in result.hypotheses],
            chosen=min(query.hypothesis, max(0, len(result.hypotheses) - 1)),
            predictions=PredictionInfo.list_of(tokenizer, result.predictions),
            predicts=predicts,
            sites=SiteInfo.list_of(result),
            beam=BeamInfo(k=n_beams, steps=steps),
            decoding=DecodingInfo.of(query.config),
            cache=CacheInfo.of(pipeline, len(result.target)),
            baseline=baseline,
            patch=None if query.patch is None else PatchInfo.of(query.patch),
        )


def _predicts_label(pipeline: Pipeline) -> bool:
    model = pipeline.traced_model
    return isinstance(model, EncoderOnly) and model.predicts_label


def _output_text(result: TraceResult) -> str:
    pipeline = result.query.pipeline
    if _predicts_label(pipeline):
        return pipeline.tgt_tokenizer.tokens(result.predictions.tokens)[0]
    return pipeline.decode_target([token for token in result.target if token != EOS]) if pipeline.generates else ""


class NextTokenInfo(ResponseBody):
    token: TokenInfo
    p: float
    log_prob: float
    kept: bool
    """Whether top_k and top_p leave the token in"""


class NextTokensResponse(ResponseBody):
    """The most likely next tokens, the probability of all others, and the entropy in bits."""

    top: list[NextTokenInfo]
    rest: float
    entropy: float

    @classmethod
    def of(cls, tokenizer: Tokenizer, log_probs: torch.Tensor, request: NextTokensRequest) -> "NextTokensResponse":
        """log_probs [V]; temperature, top_k and top_p of the request are applied."""
        scaled = (log_probs / request.temperature).log_softmax(-1)
        config = SamplingConfig(temperature=request.temperature, top_k=request.top_k, top_p=request.top_p)
        kept = filter_probabilities(log_probs[None], config)[0] > 0
        top = scaled.topk(min(request.k, len(scaled)))
        p = scaled.exp()
        tokens = [
            NextTokenInfo(token=TokenInfo.single(tokenizer, i), p=float(p[i]), log_prob=log_prob, kept=bool(kept[i]))
            for i, log_prob in zip(top.indices.tolist(), top.values.tolist(), strict=True)
        ]
        entropy = float(-(p * scaled).nan_to_num().sum()) / math.log(2)
        return cls(top=tokens, rest=max(0.0, 1.0 - float(p[top.indices].sum())), entropy=entropy)
