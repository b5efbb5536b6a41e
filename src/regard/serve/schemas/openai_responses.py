"""Responses of OpenAI's API: completions and chat completions, whole and streamed, and embeddings."""

import re
from collections.abc import Sequence
from typing import Literal

from regard.serve.choices import ChoiceToken, FinishReason
from regard.serve.schemas.base import ResponseBody

_LOWEST = -9999.0  # OpenAI's number for a token that is as good as impossible
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


class TokenUsage(ResponseBody):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class CompletionLogprobs(ResponseBody):
    """The tokens of a text and their log-probabilities."""

    text_offset: list[int]
    token_logprobs: list[float]
    tokens: list[str]
    top_logprobs: list[dict[str, float]]

    @classmethod
    def of(cls, tokens: Sequence[ChoiceToken]) -> "CompletionLogprobs":
        return cls(
            text_offset=[token.offset for token in tokens],
            token_logprobs=[max(token.log_prob, _LOWEST) for token in tokens],
            tokens=[token.string for token in tokens],
            top_logprobs=[{string: max(log_prob, _LOWEST) for string, log_prob in token.top} for token in tokens],
        )


class CompletionChoice(ResponseBody):
    index: int
    text: str
    finish_reason: FinishReason | None
    logprobs: CompletionLogprobs | None


class OpenAIResponse(ResponseBody):
    id: str
    created: int
    model: str


class CompletionChunk(OpenAIResponse):
    """A streamed part of a completion. The last one of a choice has a finish reason, the last of all the usage."""

    object: Literal["text_completion"] = "text_completion"
    choices: list[CompletionChoice]
    usage: TokenUsage | None = None
    """In one more chunk without choices, with `stream_options.include_usage`"""


class CompletionResponse(OpenAIResponse):
    object: Literal["text_completion"] = "text_completion"
    choices: list[CompletionChoice]
    usage: TokenUsage


class TopLogprob(ResponseBody):
    token: str
    bytes: list[int]
    logprob: float

    @classmethod
    def list_of(cls, tokens: Sequence[tuple[str, float]]) -> "list[TopLogprob]":
        return [cls(token=string, bytes=_bytes_of(string), logprob=max(value, _LOWEST)) for string, value in tokens]


class TokenLogprob(TopLogprob):
    top_logprobs: list[TopLogprob]


class ChatLogprobs(ResponseBody):
    content: list[TokenLogprob]
    refusal: None = None

    @classmethod
    def of(cls, tokens: Sequence[ChoiceToken]) -> "ChatLogprobs":
        content = [
            TokenLogprob(
                token=token.string,
                bytes=_bytes_of(token.string),
                logprob=max(token.log_prob, _LOWEST),
                top_logprobs=TopLogprob.list_of(token.top),
            )
            for token in tokens
        ]
        return cls(content=content)


class AssistantMessage(ResponseBody):
    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None


class ContentDelta(ResponseBody):
    content: str


class EmptyDelta(ResponseBody):
    """Nothing is added: the delta of the last chunk"""


class ChatChoice(ResponseBody):
    index: int
    message: AssistantMessage
    finish_reason: FinishReason
    logprobs: ChatLogprobs | None


class ChatResponse(OpenAIResponse):
    object: Literal["chat.completion"] = "chat.completion"
    choices: list[ChatChoice]
    usage: TokenUsage


class ChatChunkChoice(ResponseBody):
    index: int
    delta: AssistantMessage | ContentDelta | EmptyDelta
    """The first one of a choice has the role, the last one nothing"""
    finish_reason: FinishReason | None
    logprobs: ChatLogprobs | None


class ChatChunk(OpenAIResponse):
    """A streamed part of a chat completion. The last one of a choice has a finish reason, the last of all the usage."""

    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    choices: list[ChatChunkChoice]
    usage: TokenUsage | None = None
    """In one more chunk without choices, with `stream_options.include_usage`"""


class EmbeddingVector(ResponseBody):
    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str
    """Numbers, or base64 of little-endian 32-bit floats; the vector has length 1"""


class EmbeddingUsage(ResponseBody):
    prompt_tokens: int
    total_tokens: int


class EmbeddingResponse(ResponseBody):
    object: Literal["list"] = "list"
    data: list[EmbeddingVector]
    model: str
    usage: EmbeddingUsage


def _bytes_of(string: str) -> list[int]:
    """Return the bytes of a token: those of its text, or the one that its name says."""
    return [int(byte[1], 16)] if (byte := _BYTE.fullmatch(string)) else list(string.encode())
