"""From a request to what a model reads: its input, forced tokens, heads that are off, activations to replace."""

import base64
from dataclasses import dataclass

import numpy as np

from regard.errors import UserError
from regard.models.intervention import Intervention
from regard.models.patch import PatchSite, combine
from regard.pipelines.base import Pipeline
from regard.pipelines.encoded_input import EncodedInput, Input
from regard.pipelines.generator import Generator
from regard.pipelines.what_if import Patch, PatchActivations
from regard.search.decode import DecodeConfig
from regard.serve.dispatch import Dispatcher
from regard.serve.errors import ApiError
from regard.serve.inspect import TraceQuery
from regard.serve.registry import ServedModel
from regard.serve.schemas.v1_requests import SEARCH_SETTINGS, InspectRequest, PatchRequest, TraceRequest

SAMPLING_SETTINGS = {"samples", "temperature", "top_k", "top_p", "seed"}
"""Fields of a trace request that are options of sampling"""
_MAX_NEW_TOKENS = 100  # of a language model in a trace


@dataclass(frozen=True)
class RequestInput:
    encoded: EncodedInput
    prefix: tuple[int, ...]
    """Ids that the output starts with"""
    intervention: Intervention | None
    patch: PatchActivations | None


def check_texts(dispatcher: Dispatcher, served: ServedModel[Pipeline], text: str, body: InspectRequest) -> None:
    """Refuse texts that are too long for the server or for the model."""
    dispatcher.check_text(served, text)
    if body.patch is not None:
        dispatcher.check_text(served, dispatcher.tagged(served, body.patch.text, body.to))


def make_trace_query(served: ServedModel[Pipeline], text: str, body: TraceRequest) -> TraceQuery:
    """`text` is that of the request with its tag."""
    read, pipeline = read_input(served, text, body), served.pipeline
    prefix = read.prefix
    if not read.encoded.src_ids and not prefix and pipeline.image_size is None:
        raise ApiError(422, "Invalid request", "the text is empty; give at least one word")
    if body.target is not None and not body.target:
        raise ApiError(422, "Invalid request", "the target is empty; give at least one id, or leave it out")
    if not pipeline.generates and (body.target or body.prefix or body.samples):
        detail = f"a {pipeline.noun} generates no output; leave out target, prefix and samples"
        raise ApiError(422, "Invalid request", detail)
    _check_vocabulary(pipeline, body.target or [])
    n_new, n_cut = min(body.max_len or _MAX_NEW_TOKENS, _MAX_NEW_TOKENS), 0
    if pipeline.noun == "classifier":
        n_cut = max(0, len(pipeline.input_tokens(text)) - len(read.encoded.src_ids))
    if isinstance(pipeline, Generator) and body.target is None:
        n_new, kept = pipeline.fit_prompt(prefix, n_new)
        n_cut, prefix = len(prefix) - len(kept), tuple(kept)
    target = None if body.target is None else (*read.encoded.prefix, *body.target)
    config = _decode_config(pipeline, body, len(prefix) + n_new)
    if read.patch is not None and read.patch.is_greedy and not body.samples:
        config = config.model_copy(update={"beam": 1, "n_best": 1})
    return TraceQuery(
        pipeline,
        read.encoded,
        config,
        prefix,
        read.intervention,
        target,
        body.hypothesis,
        body.k,
        n_cut,
        read.patch,
    )


def _decode_config(pipeline: Pipeline, body: TraceRequest, max_len: int) -> DecodeConfig:
    """Return the model's settings with those of the request; all hypotheses of the beam are returned."""
    options = body.model_dump(include=SEARCH_SETTINGS, exclude_none=True)
    if pipeline.noun == "generator":
        options["max_len"] = max_len
    if body.samples:
        sampling = body.model_dump(include=SAMPLING_SETTINGS - {"samples"})
        options |= {"sampling": sampling, "n_best": body.samples}
    config = DecodeConfig.parse({**pipeline.decode_config.model_dump(), **options}, where="trace")
    return config if body.samples else config.model_copy(update={"n_best": config.beam, "sampling": None})


def read_input(served: ServedModel[Pipeline], text: str, body: InspectRequest) -> RequestInput:
    """Return what the model reads; `text` is that of the request with its tag."""
    pipeline = served.pipeline
    if body.mask_src and not pipeline.can_hide_tokens:
        detail = "tokens cannot be hidden from this model; see can_hide_tokens in /v1/models"
        raise ApiError(422, "Invalid request", detail)
    _check_vocabulary(pipeline, body.prefix)
    encoded = pipeline.encode(_source(served, text, body.pixels), body.mask_src)
    heads = [(kind, int(layer), int(head)) for kind, layer, head in (name.split(".") for name in body.ablate)]
    try:
        off = pipeline.intervention(heads)
        patch = None if body.patch is None else pipeline.patch_activations(_patch(served, body.patch, body.to))
    except UserError as error:  # its message has nothing of the request but numbers
        raise ApiError(422, "Invalid request", str(error)) from None
    intervention = off if patch is None else combine(off, patch.intervention)
    return RequestInput(encoded, (*encoded.prefix, *body.prefix), intervention, patch)


def _patch(served: ServedModel[Pipeline], body: PatchRequest, to: str | None) -> Patch:
    text = served.pipeline.with_tag(body.text, to)
    sites = [PatchSite(site.kind, site.layer, site.head, site.position) for site in body.sites]
    return Patch(_source(served, text, body.pixels), sites)


def _source(served: ServedModel[Pipeline], text: str, pixels: str | None) -> Input:
    """Return the text or, for a captioner, the image. The client has scaled it: no image file is opened here."""
    if served.pipeline.image_size is None:
        if pixels is not None:
            raise ApiError(422, "Invalid request", "this model reads text, not images")
        return text
    try:
        decoded = base64.b64decode(pixels or "", validate=True)
    except ValueError:
        decoded = b""
    side = served.pipeline.image_size.pixels
    if len(decoded) != 3 * side**2:
        raise ApiError(422, "Invalid request", f"pixels must be {side} × {side} × 3 bytes in base64")
    return np.frombuffer(decoded, dtype=np.uint8).reshape(side, side, 3).copy()


def _check_vocabulary(pipeline: Pipeline, ids: list[int]) -> None:
    if any(token >= pipeline.tgt_tokenizer.size for token in ids):
        raise ApiError(422, "Invalid request", "an id is outside of the vocabulary")
