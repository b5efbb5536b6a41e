"""Response bodies of the page's own API, /v1/…"""

import math
from collections.abc import Sequence
from typing import Literal

import torch

from regard.models.encoder_only import EncoderOnly
from regard.models.record import KINDS
from regard.nn.attention import MultiHeadAttention
from regard.pipelines.base import Pipeline
from regard.pipelines.translation import Candidate, Translation
from regard.search.protocols import Hypothesis
from regard.search.sampling import SamplingConfig, filter_probabilities
from regard.search.search_tree import Node
from regard.serve.inspect import TraceResult
from regard.serve.registry import ServedModel
from regard.serve.schemas.base import ResponseBody
from regard.serve.schemas.v1_requests import NextTokensRequest, SiteName
from regard.text.bpe_merges import WordMerges, bpe_merges
from regard.text.fitted_text import FittedText
from regard.text.tokenizer import Tokenizer
from regard.text.vocab import EOS
from regard.text.words import TokenWords

_BYTES_PER_NUMBER = 4  # float32
_AXES: dict[str, tuple[Literal["source", "target"], Literal["source", "read"]]] = {
    "encoder": ("source", "source"),
    "decoder": ("target", "read"),
    "cross": ("target", "source"),
}


class PieceInfo(ResponseBody):
    """A token as text, and the index of its word; −1 for tokens of no word."""

    text: str
    word: int

    @classmethod
    def list_of(cls, tokens: Sequence[str], first_word: int = 0) -> "list[PieceInfo]":
        words = TokenWords.of(tokens).first_units()
        return [cls(text=t, word=w if w < 0 else first_word + w) for t, w in zip(tokens, words, strict=True)]


class TokenInfo(ResponseBody):
    """A token with its id; for a region of an image, the number of the region."""

    id: int
    text: str
    word: int

    @classmethod
    def list_of(cls, ids: Sequence[int], tokens: Sequence[str]) -> "list[TokenInfo]":
        words = TokenWords.of(tokens).first_units()
        return [cls(id=i, text=t, word=w) for i, t, w in zip(ids, tokens, words, strict=True)]

    @classmethod
    def encode(cls, tokenizer: Tokenizer, ids: Sequence[int]) -> "list[TokenInfo]":
        return cls.list_of(ids, tokenizer.tokens(ids))

    @classmethod
    def single(cls, tokenizer: Tokenizer, token: int) -> "TokenInfo":
        """A token outside of a text, which belongs to no word"""
        return cls(id=token, text=tokenizer.tokens([token])[0], word=-1)


class MergesInfo(ResponseBody):
    """The segmentations of one word while BPE merges it."""

    word: int
    stages: list[list[str]]

    @classmethod
    def of(cls, merges: WordMerges) -> "MergesInfo":
        return cls(word=merges.word, stages=[list(stage) for stage in merges.stages])


class TokenizeResponse(ResponseBody):
    tokens: list[TokenInfo]
    merges: list[MergesInfo] | None
    """null if the tokenizer does not use BPE"""

    @classmethod
    def of(cls, tokenizer: Tokenizer, text: str) -> "TokenizeResponse":
        merges = bpe_merges(tokenizer, text)
        return cls(
            tokens=TokenInfo.encode(tokenizer, tokenizer.encode([text])[0]),
            merges=None if merges is None else [MergesInfo.of(word) for word in merges],
        )


class CandidateInfo(ResponseBody):
    """One of the n best translations."""

    text: str
    score: float
    confidence: float
    """Geometric mean of the tokens' probabilities"""
    tokens: list[PieceInfo]
    alignment: list[tuple[int, int]] | None
    """(source word, target word) pairs; null if the response is streamed"""

    @classmethod
    def of(cls, candidate: Candidate, pieces: list[PieceInfo]) -> "CandidateInfo":
        links = None if candidate.alignment is None else list(candidate.alignment)
        return cls(
            text=candidate.text,
            score=candidate.score,
            confidence=candidate.confidence,
            tokens=pieces,
            alignment=links,
        )


class SentenceInfo(ResponseBody):
    """A sentence of a text, and its translation."""

    source: str
    read: str
    """The sentence as the model reads it: with the tag of the target language, if it needs one, and with case and
    punctuation that it has seen in training"""
    text: str

    @classmethod
    def list_of(cls, translation: Translation) -> "list[SentenceInfo]":
        """Return the sentences of a translation; those without words are left out."""
        return [
            cls(source=part.source, read=part.fitted.tagged_text, text=part.text)
            for part in translation.sentences or (translation,)
            if part.fitted is not None
        ]


class TranslateResponse(ResponseBody):
    model: str
    text: str
    """With the line breaks and spaces of the source"""
    source: list[TokenInfo]
    """The tokens of all sentences, as the model reads them"""
    sentences: list[SentenceInfo]
    unknown: list[str]
    """Words of the source that never occurred in training"""
    unmet_terms: list[str]
    """Source terms of the request's glossary that are in the text, but not as often in the translation"""
    hypotheses: list[CandidateInfo]
    ms: float

    @classmethod
    def of(cls, served: ServedModel[Pipeline], translation: Translation, seconds: float) -> "TranslateResponse":
        tokenizer = served.pipeline.src_tokenizer
        source, pieces = list[TokenInfo](), list[PieceInfo]()
        for sentence, n_source, n_target in translation.placed_sentences():
            fitted = sentence.fitted or FittedText("")
            for token in TokenInfo.encode(tokenizer, tokenizer.encode([fitted.tagged_text])[0]):
                word = token.word if token.word < 0 else n_source + fitted.source_word(token.word)
                source.append(token.model_copy(update={"word": word}))
            pieces += PieceInfo.list_of(sentence.tokens, n_target + fitted.n_before)
        others = [CandidateInfo.of(other, PieceInfo.list_of(other.tokens)) for other in translation.hypotheses[1:]]
        return cls(
            model=served.name,
            text=translation.text,
            source=source,
            sentences=SentenceInfo.list_of(translation),
            unknown=list(translation.unknown),
            unmet_terms=[term.source for term in translation.unmet_terms],
            hypotheses=[CandidateInfo.of(translation.hypotheses[0], pieces), *others],
            ms=1000 * seconds,
        )


class ProgressEvent(ResponseBody):
    """Streamed event `said`: the best translation so far."""

    text: str


class FailedEvent(ResponseBody):
    """Streamed event `failed`, the last one if the translation fails."""

    title: str
    status: int
    detail: str


class HypothesisInfo(ResponseBody):
    text: str
    score: float
    log_prob: float
    tokens: list[TokenInfo]
    node: str
    """The node of the search tree where the hypothesis ends"""

    @classmethod
    def of(cls, pipeline: Pipeline, hypothesis: Hypothesis, node: str) -> "HypothesisInfo":
        return cls(
            text=pipeline.decode_target(hypothesis.ids),
            score=hypothesis.score,
            log_prob=hypothesis.log_prob,
            tokens=TokenInfo.encode(pipeline.tgt_tokenizer, hypothesis.ids),
            node=node,
        )


class SiteInfo(ResponseBody):
    """One kind of attention of a trace. Its weights have the shape [layers, heads, rows, columns]."""

    name: SiteName
    rows: Literal["source", "target"]
    columns: Literal["source", "read"]
    layers: int
    heads: int
    causal: bool

    @classmethod
    def list_of(cls, result: TraceResult) -> "list[SiteInfo]":
        sites = result.query.pipeline.attention_sites()
        kinds = [kind for kind in KINDS if result.record.weights(kind).size]
        return [
            cls(
                name=kind,
                rows=_AXES[kind][0],
                columns=_AXES[kind][1],
                layers=sites[kind].layers,
                heads=sites[kind].heads,
                causal=sites[kind].causal,
            )
            for kind in kinds
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


class TraceResponse(ResponseBody):
    id: str
    model: str
    expires: float
    """Seconds until the trace is deleted"""
    source: list[TokenInfo]
    """Source tokens or regions of an image; empty for a language model"""
    target: list[TokenInfo]
    read: list[PieceInfo]
    """What the decoder read at each step: BOS and all target tokens but the last"""
    hypotheses: list[HypothesisInfo]
    chosen: int
    """Which of the hypotheses is traced"""
    sites: list[SiteInfo]
    beam: BeamInfo
    cache: CacheInfo | None

    @classmethod
    def of(cls, trace_id: str, model: str, result: TraceResult, seconds: float) -> "TraceResponse":
        query, record, pipeline = result.query, result.record, result.query.pipeline
        is_image = query.encoded.src.is_floating_point()
        n_source = len(record.source_tokens)
        src_ids = range(n_source) if is_image else (*query.encoded.src_ids, EOS)[:n_source]
        tokenizer = pipeline.tgt_tokenizer
        steps = [StepInfo(candidates=[NodeInfo.of(tokenizer, node) for node in step]) for step in result.steps]
        return cls(
            id=trace_id,
            model=model,
            expires=seconds,
            source=TokenInfo.list_of(src_ids, record.source_tokens),
            target=TokenInfo.encode(tokenizer, result.target),
            read=PieceInfo.list_of(record.read_tokens),
            hypotheses=[HypothesisInfo.of(pipeline, h, result.end_nodes[h.ids]) for h in result.hypotheses],
            chosen=min(query.hypothesis, max(0, len(result.hypotheses) - 1)),
            sites=SiteInfo.list_of(result),
            beam=BeamInfo(k=query.config.beam, steps=steps),
            cache=CacheInfo.of(pipeline, len(result.target)),
        )


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
