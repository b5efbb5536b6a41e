"""Requests of OpenAI's API: completions, chat completions and embeddings. A parameter that is null is left out."""

from typing import Annotated, Any, Literal, Self

from annotated_types import Le, MaxLen
from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError
from pydantic_core.core_schema import no_info_after_validator_function

from regard.serve.schemas.base import LimitedBy, LimitedText, RequestBody
from regard.serve.schemas.v1_requests import BeamWidth, TokenIds


class Unsupported:
    """Marks the type of a parameter of which only null and values that change nothing are accepted."""

    def __init__(self, *harmless: Any, reason: str = "this server does not support it") -> None:
        self.harmless = harmless
        self.reason = reason

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        may_be_null = "type" not in handler(schema)
        return {"enum": [None, *self.harmless] if may_be_null else [*self.harmless]}

    def _check(self, value: Any) -> Any:
        if value is not None and value not in self.harmless:
            raise PydanticCustomError("unsupported_parameter", "{reason}", {"reason": self.reason})
        return value


MAX_NAME = 256  # characters of a model's name
WithoutEffect = Annotated[Any, Field(description="Accepted without effect")]
StopSequence = Annotated[str, Field(min_length=1, max_length=100)]
StopSequences = Annotated[list[StopSequence], Field(max_length=4)]
OutputTokens = Annotated[int, LimitedBy("tokens", Le), Field(ge=0)]
Temperature = Annotated[float, Field(ge=0.0, le=2.0)]
Probability = Annotated[float, Field(ge=0.0, le=1.0)]
Penalty = Annotated[float, Field(ge=-2.0, le=2.0)]
TokenIdString = Annotated[str, Field(pattern=r"^[0-9]{1,9}$")]
TokenBias = Annotated[float, Field(ge=-100.0, le=100.0)]
Seed = Annotated[int, Field(ge=-(2**63), lt=2**63)]
TextList = Annotated[list[LimitedText], LimitedBy("texts", MaxLen), Field(min_length=1)]
TokenIdsList = Annotated[list[TokenIds], LimitedBy("texts", MaxLen), Field(min_length=1)]
TextOrTokens = LimitedText | TextList | TokenIds | TokenIdsList
"""A text, several texts, the token ids of a text, or those of several"""


class OpenAIRequest(RequestBody):
    model: Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
    user: WithoutEffect = None


class StreamOptions(RequestBody):
    include_usage: bool | None = None
    """Whether a chunk with the number of tokens follows the last choice"""
    include_obfuscation: WithoutEffect = None


class GenerationRequest(OpenAIRequest):
    """Parameters that completions and chat completions have in common"""

    max_tokens: OutputTokens | None = None
    temperature: Temperature | None = None
    top_p: Probability | None = None
    n: BeamWidth | None = None
    seed: Seed | None = None
    stop: StopSequence | StopSequences | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: Annotated[dict[TokenIdString, TokenBias], Field(max_length=512)] | None = None

    @property
    def stop_sequences(self) -> tuple[str, ...]:
        return () if self.stop is None else (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def includes_usage(self) -> bool:
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    @property
    def output_tokens(self) -> int | None:
        """The most tokens to generate; None: not given"""
        return self.max_tokens

    @property
    def n_top(self) -> int | None:
        """How many of the most likely tokens to return in each place; None: no scores of tokens at all"""
        return None


class CompletionRequest(GenerationRequest):
    prompt: TextOrTokens | None = None
    best_of: BeamWidth | None = None
    echo: bool | None = None
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None
    suffix: Annotated[Any, Unsupported("")] = None

    @property
    def n_top(self) -> int | None:
        return self.logprobs


class TextContent(RequestBody):
    type: Annotated[str, Unsupported("text", reason="content parts other than text are not supported")]
    text: LimitedText


ContentParts = Annotated[list[TextContent], Field(max_length=64)]


class ChatMessage(RequestBody):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: LimitedText | ContentParts | None = None
    name: WithoutEffect = None
    tool_call_id: WithoutEffect = None
    refusal: WithoutEffect = None
    tool_calls: Annotated[Any, Unsupported([])] = None
    function_call: Annotated[Any, Unsupported()] = None
    audio: Annotated[Any, Unsupported()] = None

    @model_validator(mode="after")
    def _check_content(self) -> Self:
        if self.content is None and self.role != "assistant":
            raise PydanticCustomError("missing_content", "only a message of the assistant may have no content")
        return self

    @property
    def text(self) -> str:
        """The content; each part of it is a line"""
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content)
        return self.content or ""


class ChatRequest(GenerationRequest):
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=64)]
    max_completion_tokens: OutputTokens | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    metadata: WithoutEffect = None
    parallel_tool_calls: WithoutEffect = None
    prediction: WithoutEffect = None
    prompt_cache_key: WithoutEffect = None
    prompt_cache_options: WithoutEffect = None
    prompt_cache_retention: WithoutEffect = None
    safety_identifier: WithoutEffect = None
    service_tier: WithoutEffect = None
    store: WithoutEffect = None
    audio: Annotated[Any, Unsupported()] = None
    function_call: Annotated[Any, Unsupported("none", "auto")] = None
    functions: Annotated[Any, Unsupported([])] = None
    modalities: Annotated[Any, Unsupported(["text"])] = None
    moderation: Annotated[Any, Unsupported()] = None
    reasoning_effort: Annotated[Any, Unsupported("none")] = None
    response_format: Annotated[Any, Unsupported({"type": "text"})] = None
    tool_choice: Annotated[Any, Unsupported("none", "auto")] = None
    tools: Annotated[Any, Unsupported([])] = None
    verbosity: Annotated[Any, Unsupported("medium")] = None
    web_search_options: Annotated[Any, Unsupported()] = None

    @property
    def output_tokens(self) -> int | None:
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    @property
    def n_top(self) -> int | None:
        return (self.top_logprobs or 0) if self.logprobs else None


class EmbeddingRequest(OpenAIRequest):
    input: TextOrTokens
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Field(ge=1)] | None = None
    """Only the number of dimensions that the model has"""
