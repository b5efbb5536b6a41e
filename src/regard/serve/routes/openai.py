"""What OpenAI's clients speak: /v1/models, /v1/completions, /v1/chat/completions, whole or as a stream."""

import json
import secrets
import time
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from regard.pipelines.generator import Generator
from regard.pipelines.translator import Translation, Translator
from regard.serve.dispatch import Desk
from regard.serve.errors import ApiError, problem_of
from regard.serve.jobs import TranslateWork, WriteWork
from regard.serve.limits import Limits
from regard.serve.registry import Served
from regard.serve.schemas import Name, Text

_MOST = Limits()
Stop = Annotated[str, Field(max_length=100)]


class _Asked(BaseModel):
    """Fields of OpenAI's that mean nothing here are taken and passed over, as its clients send them."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    model: Name
    max_tokens: int | None = Field(None, ge=1, le=_MOST.tokens)
    temperature: float = Field(1.0, ge=0.0, le=2.0)
    top_p: float = Field(1.0, gt=0.0, le=1.0)
    seed: int | None = Field(None, ge=0, lt=2**32)
    stop: Stop | Annotated[list[Stop], Field(max_length=4)] | None = None
    stream: bool = False
    n: Literal[1] = 1


class Completion(_Asked):
    prompt: Text = ""


class Message(BaseModel):
    role: Literal["system", "developer", "user", "assistant"]
    content: Text


class Chat(_Asked):
    messages: Annotated[list[Message], Field(min_length=1, max_length=64)]
    max_completion_tokens: int | None = Field(None, ge=1, le=_MOST.tokens)


def router(desk: Desk, started: int) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["OpenAI"])

    @routes.get("/models")
    async def models() -> dict[str, Any]:
        data = [{"id": s.name, "object": "model", "created": started, "owned_by": "regard"} for s in desk.registry]
        examples = {served.name: served.examples for served in desk.registry}
        described = [served.describe() for served in desk.registry]
        return {"object": "list", "data": data, "models": described, "examples": examples}

    @routes.post("/completions")
    async def completions(asked: Completion, request: Request) -> Any:
        served = desk.served(asked.model)
        return await _answer(desk, request, served, asked, asked.prompt, "text_completion")

    @routes.post("/chat/completions")
    async def chat(asked: Chat, request: Request) -> Any:
        served = desk.served(asked.model)
        said = [m.content for m in asked.messages if m.role in ("user", "assistant")]
        if not said:
            raise ApiError(422, "Invalid request", "there is no message of a user")
        # A translator translates what was said last; a language model goes on from all of it.
        text = said[-1] if isinstance(served.pipeline, Translator) else "\n".join(said)
        asked.max_tokens = asked.max_tokens or asked.max_completion_tokens
        return await _answer(desk, request, served, asked, text, "chat.completion")

    return routes


async def _answer(desk: Desk, request: Request, served: Served, asked: _Asked, text: str, kind: str) -> Any:
    desk.check_text(served, text)
    work = _work(desk, served, asked, text)
    head: dict[str, Any] = {"id": f"cmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": served.name}
    if asked.stream:
        head["object"] = kind + (".chunk" if "chat" in kind else "")
        events = _events(desk, work, head, "chat" in kind, isinstance(served.pipeline, Generator))
        return StreamingResponse(events, media_type="text/event-stream")
    [found] = await desk.do(request, [work(None)])
    said, why = (found.text, "stop") if isinstance(found, Translation) else found
    choice = {"message": {"role": "assistant", "content": said}} if "chat" in kind else {"text": said}
    choices = [{"index": 0, "finish_reason": why, "logprobs": None, **choice}]
    return {**head, "object": kind, "choices": choices, "usage": _usage(served, text, said)}


def _work(desk: Desk, served: Served, asked: _Asked, text: str) -> Callable[[Any], Any]:
    most = asked.max_tokens
    stop = () if asked.stop is None else (asked.stop,) if isinstance(asked.stop, str) else tuple(asked.stop)
    match served.pipeline:
        case Translator():
            options = () if most is None else (("max_len", most),)
            return lambda say: TranslateWork(served, text, options, desk.limits, say=say)
        case Generator():
            seed = secrets.randbelow(2**31) if asked.seed is None else asked.seed
            sampling = {"temperature": max(asked.temperature, 1e-3), "top_p": asked.top_p, "seed": seed}
            chosen = tuple(sorted(sampling.items()))
            return lambda say: WriteWork(served, text, most or 200, chosen, desk.limits, stop, say)
    raise ApiError(422, "Invalid request", "that model writes no text")


async def _events(desk: Desk, work: Any, head: dict[str, Any], chat: bool, pieces: bool) -> AsyncIterator[str]:
    """A language model is heard piece by piece; a beam may change its mind, so a translation comes at its end."""
    sent = ""
    async for kind, what in desk.stream(work):
        if kind == "failed":
            problem = problem_of(what)
            yield _event({"error": {"message": problem.detail or problem.title, "code": problem.status}})
        elif kind == "said" and pieces:
            sent += what
            yield _event(_chunk(head, what, None, chat))
        elif kind == "done":
            text, why = (what.text, "stop") if isinstance(what, Translation) else what
            yield _event(_chunk(head, text[len(sent) :], None, chat))
            yield _event(_chunk(head, "", why, chat))
    yield "data: [DONE]\n\n"


def _chunk(head: dict[str, Any], text: str, why: str | None, chat: bool) -> dict[str, Any]:
    said = {"delta": {"role": "assistant", "content": text} if why is None else {}} if chat else {"text": text}
    return {**head, "choices": [{"index": 0, "finish_reason": why, "logprobs": None, **said}]}


def _event(tree: dict[str, Any]) -> str:
    return f"data: {json.dumps(tree, ensure_ascii=False)}\n\n"


def _usage(served: Served, asked: str, said: str) -> dict[str, int]:
    sides = (served.pipeline.src_tokenizer, served.pipeline.tgt_tokenizer)
    counts = [len(side.encode([text])[0]) for side, text in zip(sides, (asked, said), strict=True)]
    return {"prompt_tokens": counts[0], "completion_tokens": counts[1], "total_tokens": sum(counts)}
