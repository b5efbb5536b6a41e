"""Traces: a sentence seen from inside, its tensors, and one head worked out."""

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from safetensors.numpy import save

from regard.errors import UserError
from regard.models.rnn import RnnDecoder
from regard.nn.mixers import LinearAttention
from regard.nn.scores import SCORES
from regard.pipelines.classifier import Classifier
from regard.pipelines.generator import Generator
from regard.search.decode import DecodeConfig
from regard.serve import schemas as schema
from regard.serve.dispatch import Desk
from regard.serve.errors import ApiError
from regard.serve.inspect import (
    Probe,
    Question,
    attention_at,
    head_at,
    probe,
    source_tokenizer,
    target_tokenizer,
)
from regard.serve.jobs import Task
from regard.serve.queue import Job
from regard.serve.registry import Served
from regard.serve.routes.forms import check_says, named, options_of, pixels_of, said_of, token_of, tokens_of, what_if
from regard.serve.trace_store import Traces
from regard.text.clean import clean
from regard.text.tokenizer import Tokenizer
from regard.text.vocab import EOS

_THUMB = 64  # cells a side of a small map
_MOST_WRITTEN = 100  # tokens of a traced text of a language model


def router(desk: Desk, traces: Traces) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["v1"])

    @routes.post("/trace")
    async def trace(asked: schema.Trace, request: Request) -> dict[str, Any]:
        served = desk.served(asked.model)
        desk.check_text(served, asked.text)
        question = _question(served, asked)
        [found] = await desk.do(request, [Task(partial(_probed, desk, served, question), len(question.source))])
        name = traces.keep(served, found)
        return {"id": name, "model": served.name, "expires": desk.limits.trace_seconds, **_traced(served, found)}

    @routes.get("/trace/{name}/tensors")
    async def tensors(
        name: str,
        names: str = Query(max_length=200),
        layer: int | None = Query(None, ge=0, lt=1000),
        head: int | None = Query(None, ge=0, lt=1000),
        dtype: str = Query("f32", pattern="^(f32|u8)$"),
    ) -> Response:
        kept = _kept(traces, name)
        found = {each: _tensor(kept.probe, each, layer, head, dtype) for each in names.split(",")}
        return Response(save(found), media_type="application/x-safetensors")

    @routes.post("/explain")
    async def explain(asked: schema.Explain, request: Request) -> Response:
        kept = _kept(traces, asked.trace)
        task = Task(lambda job: head_at(kept.served, kept.probe, asked.site, asked.layer, asked.head))
        [head] = await desk.do(request, [task])
        if asked.query >= len(head.rows):
            raise ApiError(422, "Invalid request", "there is no such query")
        i = asked.query
        arrays = {"q": head.q[i], "K": head.k, "V": head.v, "scores": head.scores[i], "weights": head.weights[i]}
        arrays |= {"mask": head.mask[i].astype(np.uint8), "out": head.output[i]}
        about = _about_head(kept.served, asked.site, asked.layer, head.columns, head.q.shape[1])
        contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        return Response(save(contiguous, metadata=about), media_type="application/x-safetensors")

    return routes


def _probed(desk: Desk, served: Served, question: Question, job: Job) -> Probe | None:
    return probe(served, question, lambda: job.gone.is_set() or job.expired(desk.limits))


def _question(served: Served, asked: schema.Trace) -> Question:
    check_says(served)
    source, prefix = said_of(served, asked.text, asked.prefix)
    if not source and not prefix and asked.pixels is None:
        raise ApiError(422, "Invalid request", "there is nothing to look at in an empty text")
    n_vocab = target_tokenizer(served).size
    if any(token >= n_vocab for token in (*asked.prefix, *(asked.target or ()))):
        raise ApiError(422, "Invalid request", "an id is outside of the vocabulary")
    options = dict(options_of(served, asked))
    if isinstance(served.pipeline, Generator):
        most = min(asked.max_len or _MOST_WRITTEN, _MOST_WRITTEN)
        config = DecodeConfig(beam=1, max_len=len(prefix) + most)
    else:
        assert not isinstance(served.pipeline, Classifier)  # it says nothing
        config = DecodeConfig.parse({**served.pipeline.decode_config.model_dump(), **options}, where="trace")
        config = config.model_copy(update={"n_best": config.beam})
    if asked.target is not None and not asked.target:
        raise ApiError(422, "Invalid request", "the target is empty")
    target = None if asked.target is None else (*prefix[: len(prefix) - len(asked.prefix)], *asked.target)
    pixels = pixels_of(served, asked.pixels)
    return Question(source, config, prefix, *what_if(served, asked), target, asked.hypothesis, pixels)


def _traced(served: Served, found: Probe) -> dict[str, Any]:
    target, source = target_tokenizer(served), source_tokenizer(served)
    record = found.record
    return {
        "source": _source(source, found),
        "target": tokens_of(target, found.target),
        "read": named(record.read_tokens),
        "hypotheses": [
            {
                "text": clean(target.decode(h.ids)),
                "score": h.score,
                "log_prob": h.log_prob,
                "tokens": tokens_of(target, h.ids),
                "node": found.nodes[h.ids],
            }
            for h in found.hypotheses
        ],
        "chosen": min(found.question.hypothesis, max(0, len(found.hypotheses) - 1)),
        "sites": [_site(found, kind) for kind in ("encoder", "decoder", "cross") if record.weights(kind).size],
        "beam": {"k": found.question.config.beam, "steps": [_step(target, step) for step in found.steps]},
        "cache": _cache(served, found),
    }


def _source(tokenizer: Tokenizer, found: Probe) -> list[dict[str, Any]]:
    """Tokens, or the regions of a picture; a language model has none"""
    if found.question.pixels is not None:
        return [{"id": i, **region} for i, region in enumerate(named(found.record.source_tokens))]
    return tokens_of(tokenizer, (*found.question.source, EOS)) if found.record.source_tokens else []


def _site(found: Probe, kind: str) -> dict[str, Any]:
    layers, heads = found.record.weights(kind).shape[:2]
    rows, columns = {"encoder": ("source",) * 2, "decoder": ("target", "read"), "cross": ("target", "source")}[kind]
    return {
        "name": kind,
        "rows": rows,
        "columns": columns,
        "layers": layers,
        "heads": heads,
        "causal": kind == "decoder",
    }


def _step(tokenizer: Tokenizer, nodes: Sequence[Any]) -> dict[str, Any]:
    return {
        "candidates": [
            {
                "node": node.name,
                "parent": node.parent,
                "token": token_of(tokenizer, node.ids[-1]),
                "log_prob": node.log_prob,
                "score": node.score,
                "state": node.state,
            }
            for node in nodes
        ]
    }


def _cache(served: Served, found: Probe) -> dict[str, int] | None:
    """What the decoder keeps of its past: two vectors a token and layer; and the multiplications that spares"""
    sites = served.sites()
    if "decoder" not in sites:
        return None
    layers, n = sites["decoder"][0], len(found.target)
    part = attention_at(served.model, "decoder", 0)
    width, d = part.key_value.out_features, served.model.d_model
    once = layers * 2 * d * width  # of keys and values of a token
    return {
        "bytes_per_token": layers * width * 4,
        "tokens": n,
        "bytes": layers * width * 4 * n,
        "flops_without": once * n * (n + 1) // 2,
        "flops_with": once * n,
    }


def _kept(traces: Traces, name: str) -> Any:
    kept = traces.get(name)
    if kept is None:
        raise ApiError(404, "Not found", "there is no such trace any more; ask for it again")
    return kept


def _tensor(found: Probe, name: str, layer: int | None, head: int | None, dtype: str) -> Any:
    kind, _, what = name.partition(".")
    if kind not in ("encoder", "decoder", "cross") or what not in ("weights", "thumb"):
        raise ApiError(422, "Invalid request", "names are encoder, decoder or cross with .weights or .thumb")
    try:
        weights = found.record.select(layer, head, kind).weights(kind)
    except UserError:
        raise ApiError(422, "Invalid request", "there is no such layer or head") from None
    if what == "thumb":
        return np.ascontiguousarray(_bytes(_pooled(weights)))
    if layer is not None and head is not None and weights.size:
        weights = weights[0, 0]
    return np.ascontiguousarray(_bytes(weights) if dtype == "u8" else weights)


def _bytes(weights: Any) -> Any:
    """255 √w: small weights keep more of their difference"""
    return np.rint(255 * np.sqrt(np.clip(weights, 0, 1))).astype(np.uint8)


def _pooled(weights: Any) -> Any:
    """[L, H, T, S] → the greatest of each part, at most 64 × 64"""
    if not weights.size:
        return weights
    for axis in (2, 3):
        n = weights.shape[axis]
        if n > _THUMB:
            starts = np.arange(_THUMB) * n // _THUMB
            weights = np.maximum.reduceat(weights, starts, axis=axis)
    return weights


def _about_head(served: Served, kind: str, layer: int, columns: Sequence[str], width: int) -> dict[str, str]:
    about = {"columns": json.dumps(list(columns), ensure_ascii=False), "bias": "none"}
    decoder = getattr(served.model, "decoder", None)
    part: Any
    if kind == "cross" and isinstance(decoder, RnnDecoder):
        part, normalise = decoder, decoder.config.normalise
    else:
        part = attention_at(served.model, "decoder" if served.kind == "decoder" else kind, layer)
        normalise = part.normalise
    if isinstance(part, LinearAttention):
        return about | {"score": "linear", "normalise": "sum" if part.by_sum else "none", "scale": "1"}
    score = next(name for name, kind_ in SCORES.items() if isinstance(part.score, kind_))
    return about | {
        "score": score,
        "normalise": normalise,
        "scale": str(width**-0.5 if score == "scaled-dot" else 1.0),
        "bias": "alibi" if getattr(part, "positions", "") == "alibi" else "none",
    }
