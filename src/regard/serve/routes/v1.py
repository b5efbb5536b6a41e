"""The page's own API: tokenize, translate, next tokens."""

import json
import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from regard.pipelines.generator import Generator
from regard.pipelines.translator import Candidate, Translation, Translator
from regard.search.decode import DecodeConfig
from regard.search.sampling import filter_probabilities
from regard.serve import schemas as schema
from regard.serve.dispatch import Desk
from regard.serve.errors import problem_of
from regard.serve.inspect import Question, next_tokens, source_tokenizer, target_tokenizer
from regard.serve.jobs import Task, TranslateWork
from regard.serve.registry import Served
from regard.serve.routes.forms import check_says, named, options_of, pixels_of, said_of, token_of, tokens_of, what_if
from regard.text.bpe_merges import bpe_merges
from regard.text.clean import clean


def router(desk: Desk) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["v1"])

    @routes.post("/tokenize")
    async def tokenize(asked: schema.Tokenize) -> dict[str, Any]:
        served = desk.served(asked.model)
        desk.check_text(served, asked.text)
        tokenizer = source_tokenizer(served)
        text = asked.text if isinstance(served.pipeline, Generator) else clean(asked.text)
        merges = bpe_merges(tokenizer, text)
        return {
            "tokens": tokens_of(tokenizer, tokenizer.encode([text])[0]),
            "merges": None if merges is None else [asdict(word) for word in merges],
        }

    @routes.post("/translate")
    async def translate(asked: schema.Translate, request: Request) -> Any:
        served = desk.served(asked.model, Translator)
        desk.check_text(served, asked.text)
        desk.check_text(served, asked.prefix)
        options = options_of(served, asked, n_best=asked.n_best)
        started = time.perf_counter()

        def work(say: Any = None) -> TranslateWork:
            return TranslateWork(served, asked.text, options, desk.limits, asked.prefix, say is None, say)

        def answer(found: Translation) -> dict[str, Any]:
            return _translation(served, found, 1000 * (time.perf_counter() - started))

        if asked.stream:
            return StreamingResponse(_events(desk, work, answer), media_type="text/event-stream")
        [found] = await desk.do(request, [work()])
        return answer(found)

    @routes.post("/next")
    async def following(asked: schema.Next, request: Request) -> dict[str, Any]:
        served = desk.served(asked.model)
        check_says(served)
        desk.check_text(served, asked.text)
        source, prefix = said_of(served, asked.text, asked.prefix)
        question = Question(
            source, DecodeConfig(), prefix, *what_if(served, asked), pixels=pixels_of(served, asked.pixels)
        )
        [log_probs] = await desk.do(request, [Task(lambda job: next_tokens(served, question))])
        return _likeliest(served, log_probs, asked)

    return routes


async def _events(desk: Desk, work: Any, answer: Any) -> AsyncIterator[str]:
    async for kind, what in desk.stream(work):
        if kind == "done":
            what = answer(what)
        elif kind == "failed":
            problem = problem_of(what)
            what = {"title": problem.title, "status": problem.status, "detail": problem.detail}
        else:
            what = {"text": what}
        yield f"event: {kind}\ndata: {json.dumps(what, ensure_ascii=False)}\n\n"


def _translation(served: Served, found: Translation, milliseconds: float) -> dict[str, Any]:
    source = source_tokenizer(served)
    return {
        "model": served.name,
        "text": found.text,
        "source": tokens_of(source, source.encode([clean(found.source)])[0]),
        "hypotheses": [_hypothesis(candidate) for candidate in found.hypotheses],
        "ms": milliseconds,
    }


def _hypothesis(candidate: Candidate) -> dict[str, Any]:
    return {
        "text": candidate.text,
        "score": candidate.score,
        "tokens": named(candidate.tokens),
        "alignment": candidate.alignment,
    }


def _likeliest(served: Served, log_probs: torch.Tensor, asked: schema.Next) -> dict[str, Any]:
    tokenizer = target_tokenizer(served)
    tempered = (log_probs / asked.temperature).log_softmax(-1)
    kept = filter_probabilities(log_probs[None], asked.temperature, asked.top_k, asked.top_p)[0] > 0
    top = tempered.topk(min(asked.k, len(tempered)))
    p = tempered.exp()
    return {
        "top": [
            {"token": token_of(tokenizer, i), "p": float(p[i]), "log_prob": value, "kept": bool(kept[i])}
            for i, value in zip(top.indices.tolist(), top.values.tolist(), strict=True)
        ],
        "rest": max(0.0, 1.0 - float(p[top.indices].sum())),
        "entropy": float(-(p * tempered).nan_to_num().sum()) / float(np.log(2)),
    }
