"""The page's own API: translate, trace, the tensors of a trace, next tokens, one head worked out."""

import json
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import numpy as np
import torch
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse
from safetensors.numpy import save

from regard.errors import UserError
from regard.search.decode import DecodeConfig
from regard.search.greedy import filtered
from regard.serve import schema
from regard.serve.desk import Desk
from regard.serve.probe import (
    Probe,
    Question,
    attention_at,
    check_maskable,
    head_at,
    next_tokens,
    probe,
    source_tokenizer,
    target_tokenizer,
)
from regard.serve.problems import Problem, busy
from regard.serve.queue import Full, TooLate
from regard.serve.registry import Served
from regard.serve.replay import merges_of
from regard.serve.traces import Traces
from regard.serve.works import Task, TranslateWork
from regard.text.clean import clean
from regard.text.tokenizer import Tokenizer
from regard.text.vocab import EOS
from regard.text.words import words_of
from regard.translator import Candidate, Translation, Translator
from regard.writer import Writer

_THUMB = 64  # cells a side of a small map
_MOST_WRITTEN = 100  # tokens of a traced text of a language model


def router(desk: Desk, traces: Traces) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["v1"])

    @routes.post("/tokenize")
    async def tokenize(asked: schema.Tokenize) -> dict[str, Any]:
        served = desk.served(asked.model)
        desk.check_text(served, asked.text)
        tokenizer = source_tokenizer(served)
        text = asked.text if isinstance(served.door, Writer) else clean(asked.text)
        return {"tokens": _tokens(tokenizer, tokenizer.encode([text])[0]), "merges": merges_of(tokenizer, text)}

    @routes.post("/translate")
    async def translate(asked: schema.Translate, request: Request) -> Any:
        served = desk.served(asked.model, Translator)
        desk.check_text(served, asked.text)
        options = _options(served, asked, n_best=asked.n_best)
        started = time.perf_counter()

        def work(say: Any = None) -> TranslateWork:
            return TranslateWork(served, asked.text, options, desk.limits, asked.prefix, say is None, say)

        def answer(found: Translation) -> dict[str, Any]:
            return _translation(served, found, 1000 * (time.perf_counter() - started))

        if asked.stream:
            return StreamingResponse(_events(desk, work, answer), media_type="text/event-stream")
        [found] = await desk.do(request, [work()])
        return answer(found)

    @routes.post("/trace")
    async def trace(asked: schema.Trace, request: Request) -> dict[str, Any]:
        served = desk.served(asked.model)
        desk.check_text(served, asked.text)
        question = _question(served, asked)
        [found] = await desk.do(request, [Task(lambda _: probe(served, question), len(question.source))])
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
        task = Task(lambda _: head_at(kept.served, kept.probe, asked.site, asked.layer, asked.head))
        [head] = await desk.do(request, [task])
        if asked.query >= len(head.rows):
            raise Problem(422, "Invalid request", "there is no such query")
        i = asked.query
        arrays = {"q": head.q[i], "K": head.k, "V": head.v, "scores": head.scores[i], "weights": head.weights[i]}
        arrays |= {"mask": head.mask[i].astype(np.uint8), "out": head.output[i]}
        about = _about_head(kept.served, asked.site, asked.layer, head.columns, head.q.shape[1])
        contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        return Response(save(contiguous, metadata=about), media_type="application/x-safetensors")

    @routes.post("/next")
    async def following(asked: schema.Next, request: Request) -> dict[str, Any]:
        served = desk.served(asked.model)
        if not isinstance(served.door, Translator | Writer):
            raise Problem(422, "Invalid request", "that model says no next token")
        desk.check_text(served, asked.text)
        source, prefix = _split(served, asked.text, asked.prefix)
        [log_probs] = await desk.do(request, [Task(lambda _: next_tokens(served, source, prefix))])
        return _likeliest(served, log_probs, asked)

    return routes


async def _events(desk: Desk, work: Any, answer: Any) -> AsyncIterator[str]:
    async for kind, what in desk.stream(work):
        if kind == "done":
            what = answer(what)
        elif kind == "failed":
            problem = busy(what) if isinstance(what, Full | TooLate) else Problem(422, "Invalid request")
            what = {"title": problem.title, "status": problem.status, "detail": problem.detail}
        else:
            what = {"text": what}
        yield f"event: {kind}\ndata: {json.dumps(what, ensure_ascii=False)}\n\n"


def _options(served: Served, asked: schema.Decoding, **more: Any) -> tuple[tuple[str, Any], ...]:
    given = {"beam": asked.beam, "max_len": asked.max_len, "length_penalty": asked.length_penalty, **more}
    options = {name: value for name, value in given.items() if value is not None}
    if isinstance(served.door, Translator):
        beam = options.get("beam", served.door.config.beam)
        options["beam"] = max(beam, options.get("n_best", 1))
    return tuple(sorted(options.items()))


def _question(served: Served, asked: schema.Trace) -> Question:
    if not isinstance(served.door, Translator | Writer):
        raise Problem(422, "Invalid request", "that model says nothing that could be traced")
    source, prefix = _split(served, asked.text, asked.prefix)
    if not source and not prefix:
        raise Problem(422, "Invalid request", "there is nothing to look at in an empty text")
    n_vocab = target_tokenizer(served).size
    if any(token >= n_vocab for token in (*asked.prefix, *(asked.target or ()))):
        raise Problem(422, "Invalid request", "an id is outside of the vocabulary")
    if asked.mask_src:
        check_maskable(served)
    off = tuple((kind, int(layer), int(head)) for kind, layer, head in (each.split(".") for each in asked.ablate))
    options = dict(_options(served, asked))
    if isinstance(served.door, Writer):
        most = min(asked.max_len or _MOST_WRITTEN, _MOST_WRITTEN)
        config = DecodeConfig(beam=1, max_len=len(prefix) + most)
    else:
        config = DecodeConfig.parse({**served.door.config.model_dump(), **options}, where="trace")
        config = config.model_copy(update={"n_best": config.beam})
    target = None if asked.target is None else (*prefix[: len(prefix) - len(asked.prefix)], *asked.target)
    return Question(source, config, prefix, tuple(asked.mask_src), off, target, asked.hypothesis)


def _split(served: Served, text: str, prefix: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What is the source and what has been said: a language model's text is the beginning of what it says"""
    if any(token >= target_tokenizer(served).size for token in prefix):
        raise Problem(422, "Invalid request", "an id is outside of the vocabulary")
    if isinstance(served.door, Writer):
        return (), (*served.door.tokenizer.encode([text])[0], *prefix)
    return tuple(source_tokenizer(served).encode([clean(text)])[0]), tuple(prefix)


def _tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> list[dict[str, Any]]:
    names = tokenizer.tokens(ids)
    words = words_of(names)
    return [{"id": int(i), "text": name, "word": word} for i, name, word in zip(ids, names, words, strict=True)]


def _named(tokens: Sequence[str]) -> list[dict[str, Any]]:
    return [{"text": token, "word": word} for token, word in zip(tokens, words_of(tokens), strict=True)]


def _token(tokenizer: Tokenizer, token: int) -> dict[str, Any]:
    return {"id": token, "text": tokenizer.tokens([token])[0], "word": -1}


def _translation(served: Served, found: Translation, milliseconds: float) -> dict[str, Any]:
    source = source_tokenizer(served)
    return {
        "model": served.name,
        "text": found.text,
        "source": _tokens(source, source.encode([clean(found.source)])[0]),
        "hypotheses": [_hypothesis(candidate) for candidate in found.hypotheses],
        "ms": milliseconds,
    }


def _hypothesis(candidate: Candidate) -> dict[str, Any]:
    return {
        "text": candidate.text,
        "score": candidate.score,
        "tokens": _named(candidate.tokens),
        "alignment": candidate.alignment,
    }


def _traced(served: Served, found: Probe) -> dict[str, Any]:
    target, source = target_tokenizer(served), source_tokenizer(served)
    record = found.record
    return {
        "source": _tokens(source, (*found.question.source, EOS)) if record.source_tokens else [],
        "target": _tokens(target, found.target),
        "read": _named(record.read_tokens),
        "hypotheses": [
            {
                "text": clean(target.decode(h.ids)),
                "score": h.score,
                "log_prob": h.log_prob,
                "tokens": _tokens(target, h.ids),
                "node": found.nodes[h.ids],
            }
            for h in found.hypotheses
        ],
        "chosen": min(found.question.hypothesis, max(0, len(found.hypotheses) - 1)),
        "sites": [_site(found, kind) for kind in ("encoder", "decoder", "cross") if record.weights(kind).size],
        "beam": {"k": found.question.config.beam, "steps": [_step(target, step) for step in found.steps]},
        "cache": _cache(served, found),
    }


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
                "token": _token(tokenizer, node.token),
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
        raise Problem(404, "Not found", "there is no such trace any more; ask for it again")
    return kept


def _tensor(found: Probe, name: str, layer: int | None, head: int | None, dtype: str) -> Any:
    kind, _, what = name.partition(".")
    if kind not in ("encoder", "decoder", "cross") or what not in ("weights", "thumb"):
        raise Problem(422, "Invalid request", "names are encoder, decoder or cross with .weights or .thumb")
    try:
        weights = found.record.only(layer, head, kind).weights(kind)
    except UserError:
        raise Problem(422, "Invalid request", "there is no such layer or head") from None
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
    about = {"columns": json.dumps(list(columns), ensure_ascii=False), "bias": "none", "normalise": "softmax"}
    decoder = getattr(served.model, "decoder", None)
    if served.kind == "rnn":
        return about | {"score": decoder.config.attention, "normalise": decoder.config.normalise, "scale": "1"}  # type: ignore[union-attr]
    part = attention_at(served.model, "decoder" if served.kind == "decoder" else kind, layer)
    scaled = type(part.score).__name__ == "ScaledDot"
    names = {"ScaledDot": "scaled-dot"}
    return about | {
        "score": names.get(type(part.score).__name__, type(part.score).__name__.lower()),
        "normalise": part.normalise,
        "scale": str(width**-0.5 if scaled else 1.0),
        "bias": "alibi" if getattr(part, "positions", "") == "alibi" else "none",
    }


def _likeliest(served: Served, log_probs: torch.Tensor, asked: schema.Next) -> dict[str, Any]:
    tokenizer = target_tokenizer(served)
    tempered = (log_probs / asked.temperature).log_softmax(-1)
    kept = filtered(log_probs[None], asked.temperature, asked.top_k, asked.top_p)[0] > 0
    top = tempered.topk(min(asked.k, len(tempered)))
    p = tempered.exp()
    return {
        "top": [
            {"token": _token(tokenizer, i), "p": float(p[i]), "log_prob": value, "kept": bool(kept[i])}
            for i, value in zip(top.indices.tolist(), top.values.tolist(), strict=True)
        ],
        "rest": max(0.0, 1.0 - float(p[top.indices].sum())),
        "entropy": float(-(p * tempered).nan_to_num().sum()) / float(np.log(2)),
    }
