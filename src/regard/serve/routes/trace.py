"""The page's own API for looking inside a model: traces, their tensors, one head in detail, the next token."""

import json
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse
from numpy.typing import NDArray
from safetensors.numpy import save

from regard.errors import UserError
from regard.models.record import KINDS, AttentionRecord, HeadRecord
from regard.pipelines.base import Pipeline
from regard.serve.batch_queue import FunctionJob, QueuedJob
from regard.serve.dispatch import Dispatcher
from regard.serve.errors import ApiError
from regard.serve.event_stream import stream_events
from regard.serve.inspect import TraceResult, next_token_log_probs, score_again, trace_head
from regard.serve.jobs import Report
from regard.serve.openapi_document import ERRORS, SafetensorsResponse, event_stream
from regard.serve.schemas.base import limited_route
from regard.serve.schemas.trace_responses import BaselineInfo, NextTokensResponse, TraceResponse
from regard.serve.schemas.v1_requests import (
    ExplainRequest,
    NextTokensRequest,
    TraceRequest,
)
from regard.serve.schemas.v1_responses import FailedEvent, ProgressEvent
from regard.serve.trace_job import FinishedTrace, TraceJob
from regard.serve.trace_query import check_texts, read_input
from regard.serve.trace_store import TraceStore

_THUMBNAIL = 64  # cells per side
LayerOrHead = Annotated[int | None, Query(ge=0, lt=1000)]
WeightTensor = NDArray[np.uint8] | NDArray[np.float32]


def router(dispatcher: Dispatcher, store: TraceStore) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["v1"], route_class=limited_route(dispatcher.limits), responses=ERRORS)

    @routes.post(
        "/trace",
        response_model=TraceResponse,
        responses=event_stream("said, done or failed", ProgressEvent, TraceResponse, FailedEvent),
    )
    async def trace(body: TraceRequest, request: Request) -> Response:
        """Search for the output of a model, and record the search and what the model predicts at each position.

        With `stream`, events `said` follow the search; `done` has the response.
        """
        served = dispatcher.find(body.model)
        text = dispatcher.tagged(served, body.text, body.to)
        check_texts(dispatcher, served, text, body)
        trace_id = store.new_id()
        baseline = None if body.baseline is None else stored_trace(store, body.baseline)
        if baseline is not None and baseline.query.pipeline is not served.pipeline:
            raise ApiError(422, "Invalid request", "the baseline is a trace of another model")

        def to_json(result: TraceResult) -> str:
            now = None if baseline is None else BaselineInfo.of(baseline, score_again(baseline, result.query))
            seconds = dispatcher.limits.trace_seconds
            return TraceResponse.of(trace_id, served.name, result, seconds, now, body.source).model_dump_json()

        def make_job(report: Report | None = None) -> TraceJob:
            return TraceJob(served, text, body, to_json, report)

        async def respond(done: FinishedTrace) -> str:
            result, content = done
            store.add(trace_id, result, request.state.client, body.tab)
            return content

        if body.stream:
            return StreamingResponse(stream_events(dispatcher, make_job, respond), media_type="text/event-stream")
        [done] = await dispatcher.run(request, [make_job()])
        return Response(await respond(done), media_type="application/json")

    _add_next_route(routes, dispatcher)
    _add_tensor_routes(routes, dispatcher, store)
    return routes


def _add_next_route(routes: APIRouter, dispatcher: Dispatcher) -> None:
    @routes.post("/next")
    async def next_tokens(body: NextTokensRequest, request: Request) -> NextTokensResponse:
        """Return the most likely tokens after a prefix."""
        served = dispatcher.find(body.model)
        text = dispatcher.tagged(served, body.text, body.to)
        check_texts(dispatcher, served, text, body)
        if not served.pipeline.generates:
            raise ApiError(422, "Invalid request", f"a {served.pipeline.noun} generates no tokens; use /v1/trace")

        def run(queued: QueuedJob) -> NextTokensResponse:
            read = read_input(served, text, body)
            log_probs = next_token_log_probs(served.pipeline, read.encoded, read.prefix, read.intervention)
            return NextTokensResponse.of(served.pipeline.tgt_tokenizer, log_probs, body)

        [response] = await dispatcher.run(request, [FunctionJob(run, "trace")])
        return response


def _add_tensor_routes(routes: APIRouter, dispatcher: Dispatcher, store: TraceStore) -> None:
    @routes.get("/trace/{trace_id}/tensors", response_class=SafetensorsResponse)
    async def tensors(
        request: Request,
        trace_id: str,
        names: Annotated[str, Query(max_length=200)],
        layer: LayerOrHead = None,
        head: LayerOrHead = None,
        dtype: Literal["f32", "u8"] = "f32",
    ) -> Response:
        """Return attention weights of a trace as safetensors. `names`: cross.weights, encoder.thumb, …"""
        result = stored_trace(store, trace_id)

        def run(queued: QueuedJob) -> bytes:
            record = store.record(trace_id, result, request.state.client)
            parts = {name: _select(record, name, layer, head) for name in names.split(",")}
            n_bytes = sum(_count_bytes(name, weights, dtype) for name, weights in parts.items())
            if n_bytes > (most := dispatcher.limits.tensor_bytes):
                detail = f"tensors may have {most:,} bytes; ask for one layer and head, or for dtype=u8"
                raise ApiError(413, "Content too large", detail)
            return save({name: _tensor(name, weights, dtype) for name, weights in parts.items()})

        [content] = await dispatcher.run(request, [FunctionJob(run, "export")])
        return SafetensorsResponse(content)

    @routes.post("/explain", response_class=SafetensorsResponse)
    async def explain(body: ExplainRequest, request: Request) -> Response:
        """Return one query of one head as safetensors: q, K, V, scores, mask, weights and output."""
        result = stored_trace(store, body.trace)

        def run(queued: QueuedJob) -> bytes:
            head = trace_head(result, body.site, body.layer, body.head)
            if body.query >= len(head.rows):
                raise ApiError(422, "Invalid request", "there is no such query")
            return _head_tensors(result.query.pipeline, head, body.query)

        [content] = await dispatcher.run(request, [FunctionJob(run, "trace")])
        return SafetensorsResponse(content)


def stored_trace(store: TraceStore, trace_id: str) -> TraceResult:
    if (result := store.get(trace_id)) is None:
        raise ApiError(404, "Not found", "there is no such trace, or it has expired; request it again")
    return result


def _select(record: AttentionRecord, name: str, layer: int | None, head: int | None) -> NDArray[np.float32]:
    """Return the weights that a tensor is made from: [layers, heads, T, S], or [T, S] for one layer and head."""
    kind, _, form = name.partition(".")
    if kind not in KINDS or form not in ("weights", "thumb"):
        raise ApiError(422, "Invalid request", "names are encoder, decoder or cross with .weights or .thumb")
    try:
        weights = record.select(layer, head, kind).weights(kind)
    except UserError:
        raise ApiError(422, "Invalid request", "there is no such layer or head") from None
    one_head = form == "weights" and layer is not None and head is not None and weights.size > 0
    return weights[0, 0] if one_head else weights


def _count_bytes(name: str, weights: NDArray[np.float32], dtype: str) -> int:
    if name.endswith(".thumb"):
        layers, heads, *sides = weights.shape
        return layers * heads * int(np.prod([min(side, _THUMBNAIL) for side in sides]))
    return weights.size * (1 if dtype == "u8" else 4)


def _tensor(name: str, weights: NDArray[np.float32], dtype: str) -> WeightTensor:
    if name.endswith(".thumb"):
        return np.ascontiguousarray(_as_bytes(_shrink(weights)))
    return np.ascontiguousarray(_as_bytes(weights)) if dtype == "u8" else np.ascontiguousarray(weights)


def _as_bytes(weights: NDArray[np.float32]) -> NDArray[np.uint8]:
    """255 √w, rounded: the root keeps small weights apart"""
    return np.rint(255 * np.sqrt(np.clip(weights, 0, 1))).astype(np.uint8)


def _shrink(weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """[layers, heads, T, S] → the maximum of each part, at most 64 × 64 parts"""
    if not weights.size:
        return weights
    for axis in (2, 3):
        n = weights.shape[axis]
        if n > _THUMBNAIL:
            starts = np.arange(_THUMBNAIL) * n // _THUMBNAIL
            weights = np.maximum.reduceat(weights, starts, axis=axis)
    return weights


def _head_tensors(pipeline: Pipeline, head: HeadRecord, query: int) -> bytes:
    """Serialise one query of a head, with what is needed to recompute it as metadata."""
    arrays: dict[str, NDArray[Any]] = {
        "q": head.q[query],
        "K": head.k,
        "V": head.v,
        "scores": head.scores[query],
        "mask": head.mask[query].astype(np.uint8),
        "weights": head.weights[query],
        "out": head.output[query],
    }
    model = pipeline.traced_model
    # A decoder-only model shows parts of its self-attention as other kinds.
    module = (model.attention_modules(head.kind) or model.attention_modules("decoder"))[head.layer]
    metadata = {
        "columns": json.dumps(list(head.columns), ensure_ascii=False),
        "score": module.score_name,
        "normalise": module.normalise,
        "scale": str(head.q.shape[1] ** -0.5 if module.score_name == "scaled-dot" else 1.0),
        "bias": module.score_bias,
        "context": module.context,
    }
    return save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, metadata=metadata)
