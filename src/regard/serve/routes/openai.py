"""The API of OpenAI: models, completions, chat completions and embeddings."""

import base64
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Path, Request
from fastapi.responses import Response
from numpy.typing import NDArray

from regard.errors import UserError
from regard.pipelines.base import Pipeline
from regard.pipelines.text_embedder import TextEmbedder
from regard.serve.dispatch import Dispatcher
from regard.serve.embedding_job import EmbeddingJob
from regard.serve.errors import invalid_parameter, text_too_long
from regard.serve.openai_answer import Answer, TextOrIds, check_ids
from regard.serve.openai_format import ChatFormat, CompletionFormat
from regard.serve.openapi_document import OPENAI_ERRORS, event_stream
from regard.serve.registry import ServedModel
from regard.serve.schemas.base import ResponseBody, limited_route
from regard.serve.schemas.errors import OpenAIErrorBody
from regard.serve.schemas.models import OpenAIModel
from regard.serve.schemas.openai_requests import (
    MAX_NAME,
    ChatRequest,
    CompletionRequest,
    EmbeddingRequest,
    TextOrTokens,
)
from regard.serve.schemas.openai_responses import (
    ChatChunk,
    ChatResponse,
    CompletionChunk,
    CompletionResponse,
    EmbeddingResponse,
    EmbeddingUsage,
    EmbeddingVector,
)

ModelParameter = Annotated[str, Path(max_length=MAX_NAME)]


def router(dispatcher: Dispatcher) -> APIRouter:
    routes = APIRouter(
        prefix="/v1", tags=["OpenAI"], route_class=limited_route(dispatcher.limits), responses=OPENAI_ERRORS
    )

    @routes.get("/models/{model:path}")
    async def model(model: ModelParameter) -> OpenAIModel:
        """Describe one model."""
        dispatcher.find_target(model)
        return OpenAIModel(id=model, created=dispatcher.registry.opened)

    @routes.post(
        "/completions",
        response_model=CompletionResponse,
        responses=event_stream("a chunk or an error", CompletionChunk, OpenAIErrorBody),
    )
    async def completions(body: CompletionRequest, request: Request) -> ResponseBody | Response:
        """Continue prompts with a language model; a translator translates them."""
        served, to = dispatcher.find_target(body.model)
        answer = Answer(dispatcher, served, to, body, CompletionFormat(body.model, body.n_top is not None))
        return await answer.respond(request, _as_list(body.prompt or ""))

    @routes.post(
        "/chat/completions",
        response_model=ChatResponse,
        responses=event_stream("a chunk or an error", ChatChunk, OpenAIErrorBody),
    )
    async def chat(body: ChatRequest, request: Request) -> ResponseBody | Response:
        """Continue all messages with a language model; a translator translates the user's last one."""
        served, to = dispatcher.find_target(body.model)
        answer = Answer(dispatcher, served, to, body, ChatFormat(body.model, body.n_top is not None))
        return await answer.respond(request, [_chat_text(served, body)])

    @routes.post("/embeddings")
    async def embeddings(body: EmbeddingRequest, request: Request) -> EmbeddingResponse:
        """Turn texts into vectors of length 1."""
        served, texts = _find_embedder(dispatcher, body), _as_list(body.input)
        dispatcher.check_chars(texts)
        jobs = [EmbeddingJob(served, _input_ids(dispatcher, served, text)) for text in texts]
        vectors = await dispatcher.run(request, jobs)
        data = [
            EmbeddingVector(
                index=i, embedding=_as_base64(vector) if body.encoding_format == "base64" else vector.tolist()
            )
            for i, vector in enumerate(vectors)
        ]
        n_tokens = sum(job.size for job in jobs)
        usage = EmbeddingUsage(prompt_tokens=n_tokens, total_tokens=n_tokens)
        return EmbeddingResponse(data=data, model=served.name, usage=usage)

    return routes


def _as_list(texts: TextOrTokens) -> Sequence[TextOrIds]:
    """Return one or several texts, or token ids of texts, as a list."""
    if isinstance(texts, str) or not texts or isinstance(texts[0], int):
        return [texts]  # type: ignore[list-item]  # mypy does not know that the other items are of the same type
    return texts


def _chat_text(served: ServedModel[Pipeline], body: ChatRequest) -> str:
    """Return what a model reads of a chat: the user's last message, or for a language model all messages."""
    if served.pipeline.noun != "translator":
        return "\n".join(message.text for message in body.messages if message.content is not None)
    texts = [message.text for message in body.messages if message.role == "user"]
    if not texts:
        raise invalid_parameter("messages", "there is no message of a user to translate")
    return texts[-1]


def _find_embedder(dispatcher: Dispatcher, body: EmbeddingRequest) -> ServedModel[TextEmbedder]:
    """Return the model of a request, after a check that it has vectors of the right size."""
    served = dispatcher.find(body.model)
    try:
        embedder = served.narrow(TextEmbedder)
        size = None if embedder is None else embedder.pipeline.embedding_size
    except UserError:  # a translator without an encoder
        embedder = None
    if embedder is None:
        raise invalid_parameter("model", "this model does not turn texts into vectors")
    if body.dimensions not in (None, size):
        raise invalid_parameter("dimensions", f"the vectors of this model have {size} dimensions")
    return embedder


def _input_ids(dispatcher: Dispatcher, served: ServedModel[TextEmbedder], text: TextOrIds) -> tuple[int, ...]:
    """Return the tokens of a text to embed, which must not be cut."""
    pipeline = served.pipeline
    if isinstance(text, str):
        dispatcher.check_text(served, text)
        [ids] = pipeline.src_tokenizer.encode([pipeline.clean(text)])
    else:
        ids = list(check_ids(pipeline.src_tokenizer, text, "input"))
    if not ids:
        raise invalid_parameter("input", "a text is empty")
    if len(ids) > (most := min(pipeline.length_limit().tokens, dispatcher.limits.tokens)):
        raise text_too_long(f"a text may have {most:,} tokens")
    return tuple(ids)


def _as_base64(vector: NDArray[np.float32]) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()
