"""Requests and responses of OpenAI's API: completions and chat completions, whole and streamed."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from regard.serve.schemas.base import LimitedLength, LimitedText, ModelName, RequestBody, ResponseBody

StopSequence = Annotated[str, Field(max_length=100)]
FinishReason = Literal["stop", "length"]


class OpenAIRequest(RequestBody):
    """Fields of OpenAI's API that have no meaning here are ignored, because its clients send them."""

    model_config = ConfigDict(extra="ignore", strict=False)

    model: ModelName
    max_tokens: LimitedLength | None = None
    temperature: float = Field(1.0, ge=0.0, le=2.0)
    top_p: float = Field(1.0, gt=0.0, le=1.0)
    seed: int | None = Field(None, ge=0, lt=2**32)
    stop: StopSequence | Annotated[list[StopSequence], Field(max_length=4)] | None = None
    stream: bool = False
    n: Literal[1] = 1

    @property
    def stop_sequences(self) -> tuple[str, ...]:
        return () if self.stop is None else (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)


class CompletionRequest(OpenAIRequest):
    prompt: LimitedText = ""


class ChatMessage(BaseModel):
    role: Literal["system", "developer", "user", "assistant"]
    content: LimitedText


class ChatRequest(OpenAIRequest):
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=64)]
    max_completion_tokens: LimitedLength | None = None


class TokenUsage(ResponseBody):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class OpenAIChoice(ResponseBody):
    index: Literal[0] = 0
    finish_reason: FinishReason | None
    logprobs: None = None


class OpenAIResponse(ResponseBody):
    id: str
    created: int
    model: str


class CompletionChoice(OpenAIChoice):
    text: str


class CompletionChunk(OpenAIResponse):
    """A streamed part of a completion. The last one has a finish reason."""

    object: Literal["text_completion"] = "text_completion"
    choices: list[CompletionChoice]


class CompletionResponse(CompletionChunk):
    usage: TokenUsage


class AssistantMessage(ResponseBody):
    role: Literal["assistant"] = "assistant"
    content: str


class EmptyDelta(ResponseBody):
    """Nothing is added: the delta of the last chunk"""


class ChatChoice(OpenAIChoice):
    message: AssistantMessage


class ChatResponse(OpenAIResponse):
    object: Literal["chat.completion"] = "chat.completion"
    choices: list[ChatChoice]
    usage: TokenUsage


class ChatChunkChoice(OpenAIChoice):
    delta: AssistantMessage | EmptyDelta


class ChatChunk(OpenAIResponse):
    """A streamed part of a chat completion. The last one has a finish reason."""

    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    choices: list[ChatChunkChoice]


class StreamErrorDetail(ResponseBody):
    message: str
    code: int


class StreamError(ResponseBody):
    """Sent instead of the remaining chunks if the request fails."""

    error: StreamErrorDetail
