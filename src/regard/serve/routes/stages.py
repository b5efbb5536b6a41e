"""The page's own API for the computation inside a model: its description, stages of blocks, the lens, all heads."""

import json
import re
from typing import Annotated, Any

import numpy as np
import torch
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from numpy.typing import NDArray
from safetensors.numpy import save
from torch import Tensor

from regard.errors import UserError
from regard.models.describe import describe
from regard.models.encoder_only import EncoderOnly
from regard.models.lens import lens_rows
from regard.models.stages.flow import record_flow
from regard.models.stages.record import record_block
from regard.models.stages.stage import BlockRecord
from regard.serve.batch_queue import FunctionJob, QueuedJob
from regard.serve.dispatch import Dispatcher
from regard.serve.errors import ApiError
from regard.serve.head_effects import head_effects
from regard.serve.inspect import TraceResult
from regard.serve.openapi_document import ERRORS, SafetensorsResponse
from regard.serve.routes.trace import stored_trace
from regard.serve.schemas.base import ModelName, limited_route
from regard.serve.schemas.stage_responses import (
    DescriptionResponse,
    HeadEffectsResponse,
    LensResponse,
    StagesResponse,
)
from regard.serve.trace_store import TraceStore

BlockParameter = Annotated[str, Query(max_length=40)]
SelectionParameters = Annotated[list[str], Query(max_length=256)]
_SELECTION = re.compile(r"(?P<name>[A-Za-z0-9_.-]{1,80})(\[(?P<ranges>[0-9:,;]{0,2000})\])?")


def router(dispatcher: Dispatcher, store: TraceStore) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["v1"], route_class=limited_route(dispatcher.limits), responses=ERRORS)

    @routes.get("/describe")
    async def description(model: ModelName | None = None) -> DescriptionResponse:
        """Describe what a model consists of: stacks, layers, parts, widths, numbers of parameters."""
        served = dispatcher.find(model)
        described = describe(served.pipeline.traced_model, served.pipeline.noun != "generator")
        return DescriptionResponse(model=served.name, **dict(described))

    @routes.get("/trace/{trace_id}/stages")
    async def stages(request: Request, trace_id: str, block: BlockParameter) -> StagesResponse:
        """List the operations of a block in order, with the names and shapes of all values."""
        result = stored_trace(store, trace_id)

        def run(queued: QueuedJob) -> StagesResponse:
            return StagesResponse.of(_record(result, block))

        [response] = await dispatcher.run(request, [FunctionJob(run, "export")])
        return response

    @routes.get("/trace/{trace_id}/values", response_class=SafetensorsResponse)
    async def values(request: Request, trace_id: str, block: BlockParameter, value: SelectionParameters) -> Response:
        """Return values of a block as safetensors, float32.

        `value`, which may be repeated, is a name and optionally a selection of each axis, separated by semicolons:
        `self.query`, `self.query.weight[0:32;:]`, `logits[3:4;17,95,1200]`.
        """
        result = stored_trace(store, trace_id)

        def run(queued: QueuedJob) -> bytes:
            record = _record(result, block)
            selected = {text: _select(record, text) for text in value}
            return _serialise(selected, dispatcher.limits.tensor_bytes)

        [content] = await dispatcher.run(request, [FunctionJob(run, "export")])
        return SafetensorsResponse(content)

    _add_effect_routes(routes, dispatcher, store)
    return routes


def _add_effect_routes(routes: APIRouter, dispatcher: Dispatcher, store: TraceStore) -> None:
    @routes.get("/trace/{trace_id}/lens")
    async def lens(request: Request, trace_id: str, k: Annotated[int, Query(ge=1, le=20)] = 4) -> LensResponse:
        """Return what the model would predict after each part of each layer (logit lens)."""
        result = stored_trace(store, trace_id)

        def run(queued: QueuedJob) -> LensResponse:
            query = result.query
            tokens = torch.tensor(result.predictions.tokens)
            rows = lens_rows(query.pipeline.traced_model, query.batch(result.target), tokens, k, query.intervention)
            return LensResponse.of(query.pipeline.tgt_tokenizer, rows)

        [response] = await dispatcher.run(request, [FunctionJob(run, "export")])
        return response

    @routes.get("/trace/{trace_id}/flow", response_class=SafetensorsResponse)
    async def flow(request: Request, trace_id: str) -> Response:
        """Return lengths of vectors as safetensors, float32, with the metadata `points`.

        `encoder.norms` [points, positions]: after the embedding and after each part; `encoder.added` [parts,
        positions]: of what each part adds; `cross.heads` [layers, heads, positions]: of what each head adds.
        """
        result = stored_trace(store, trace_id)

        def run(queued: QueuedJob) -> bytes:
            query = result.query
            flow = record_flow(query.pipeline.traced_model, query.batch(result.target), query.intervention)
            values = {f"{kind}.heads": norms for kind, norms in flow.heads.items()}
            for name, stack in flow.stacks.items():
                values |= {f"{name}.norms": stack.norms, f"{name}.added": stack.added}
            points = json.dumps({name: stack.points for name, stack in flow.stacks.items()})
            return _serialise(values, dispatcher.limits.tensor_bytes, {"points": points})

        [content] = await dispatcher.run(request, [FunctionJob(run, "export")])
        return SafetensorsResponse(content)

    @routes.get("/trace/{trace_id}/heads")
    async def heads(request: Request, trace_id: str) -> HeadEffectsResponse:
        """Switch each head off in turn, and return by how much log p of the traced output changes."""
        result = stored_trace(store, trace_id)
        if isinstance(result.query.pipeline.traced_model, EncoderOnly) and not result.predictions.tokens:
            raise ApiError(422, "Invalid request", "this trace has no output")

        def run(queued: QueuedJob) -> HeadEffectsResponse | None:
            effects = head_effects(result, dispatcher.limits.head_rows, queued.is_cancelled)
            return None if effects is None else HeadEffectsResponse.of(*effects)

        [response] = await dispatcher.run(request, [FunctionJob(run, "trace")])
        return response


def _record(result: TraceResult, block: str) -> BlockRecord:
    query = result.query
    try:
        return record_block(query.pipeline.traced_model, query.batch(result.target), block, query.intervention)
    except UserError as error:  # its message has nothing of the request but numbers
        raise ApiError(422, "Invalid request", str(error)) from None


def _select(record: BlockRecord, text: str) -> Tensor:
    """Return the part of a value that a text such as `name[0:3;5,7]` means."""
    match = _SELECTION.fullmatch(text)
    if match is None or match["name"] not in record.values:
        raise ApiError(422, "Invalid request", "a value has an unknown name; see /stages")
    tensor = record.values[match["name"]].tensor
    if not match["ranges"]:
        return tensor
    ranges = match["ranges"].split(";")
    if len(ranges) > tensor.ndim:
        raise ApiError(422, "Invalid request", "a value has fewer axes than are selected")
    for axis, part in enumerate(ranges):
        tensor = _select_axis(tensor, axis, part)
    return tensor


def _select_axis(tensor: Tensor, axis: int, part: str) -> Tensor:
    try:
        if ":" in part:
            start, _, end = part.partition(":")
            low, high = int(start or 0), min(int(end or tensor.shape[axis]), tensor.shape[axis])
            return tensor.narrow(axis, low, max(0, high - low))
        indices = torch.tensor([int(index) for index in part.split(",")], device=tensor.device)
        return tensor.index_select(axis, indices)
    except (ValueError, RuntimeError, IndexError):
        raise ApiError(422, "Invalid request", "a selection is outside of its value, or is not one") from None


def _serialise(values: dict[str, Tensor], most_bytes: int, metadata: dict[str, str] | None = None) -> bytes:
    if sum(4 * tensor.numel() for tensor in values.values()) > most_bytes:
        detail = f"values may have {most_bytes:,} bytes; ask for parts of them, such as name[0:100;0:64]"
        raise ApiError(413, "Content too large", detail)
    return save({name: _as_float32(tensor) for name, tensor in values.items()}, metadata=metadata)


def _as_float32(tensor: Tensor) -> NDArray[Any]:
    return np.ascontiguousarray(tensor.detach().float().cpu().numpy())
