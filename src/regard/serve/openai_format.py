"""Choices as bodies of OpenAI's API: completions and chat completions, whole or as a stream of chunks."""

import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from regard.serve.choices import ChoiceList, FinishReason, TextChoice
from regard.serve.schemas.base import ResponseBody
from regard.serve.schemas.openai_responses import (
    AssistantMessage,
    ChatChoice,
    ChatChunk,
    ChatChunkChoice,
    ChatLogprobs,
    ChatResponse,
    CompletionChoice,
    CompletionChunk,
    CompletionLogprobs,
    CompletionResponse,
    ContentDelta,
    EmptyDelta,
    TokenUsage,
)


def _new_id() -> str:
    return f"cmpl-{secrets.token_hex(12)}"


@dataclass(frozen=True)
class AnswerFormat(ABC):
    """Formats the answer to one request."""

    model: str
    scored: bool
    """Whether the tokens and their log-probabilities are part of the answer"""
    id: str = field(default_factory=_new_id)
    created: int = field(default_factory=lambda: int(time.time()))

    @abstractmethod
    def response(self, results: Sequence[ChoiceList]) -> ResponseBody:
        """The whole answer, given the choices for each prompt"""

    @abstractmethod
    def part(self, index: int, part: TextChoice, is_first: bool) -> ResponseBody:
        """A chunk with a part of choice `index`"""

    @abstractmethod
    def end(self, index: int, reason: FinishReason | None) -> ResponseBody:
        """The last chunk of choice `index`"""

    @abstractmethod
    def usage(self, results: Sequence[ChoiceList]) -> ResponseBody:
        """A chunk that says how many tokens were read and generated"""


class CompletionFormat(AnswerFormat):
    def response(self, results: Sequence[ChoiceList]) -> CompletionResponse:
        choices = [self._choice(i, choice) for i, choice in enumerate(all_choices(results))]
        return CompletionResponse(
            id=self.id, created=self.created, model=self.model, choices=choices, usage=token_usage(results)
        )

    def part(self, index: int, part: TextChoice, is_first: bool) -> CompletionChunk:
        return self._chunk(self._choice(index, part))

    def end(self, index: int, reason: FinishReason | None) -> CompletionChunk:
        return self._chunk(CompletionChoice(index=index, text="", finish_reason=reason, logprobs=None))

    def usage(self, results: Sequence[ChoiceList]) -> CompletionChunk:
        return self._chunk(usage=token_usage(results))

    def _choice(self, index: int, choice: TextChoice) -> CompletionChoice:
        logprobs = CompletionLogprobs.of(choice.tokens) if self.scored else None
        return CompletionChoice(index=index, text=choice.text, finish_reason=choice.finish_reason, logprobs=logprobs)

    def _chunk(self, *choices: CompletionChoice, usage: TokenUsage | None = None) -> CompletionChunk:
        return CompletionChunk(id=self.id, created=self.created, model=self.model, choices=list(choices), usage=usage)


class ChatFormat(AnswerFormat):
    def response(self, results: Sequence[ChoiceList]) -> ChatResponse:
        choices = [
            ChatChoice(
                index=i,
                message=AssistantMessage(content=choice.text),
                finish_reason=choice.finish_reason or "stop",
                logprobs=self._logprobs(choice),
            )
            for i, choice in enumerate(all_choices(results))
        ]
        return ChatResponse(
            id=self.id, created=self.created, model=self.model, choices=choices, usage=token_usage(results)
        )

    def part(self, index: int, part: TextChoice, is_first: bool) -> ChatChunk:
        delta = AssistantMessage(content=part.text) if is_first else ContentDelta(content=part.text)
        return self._chunk(ChatChunkChoice(index=index, delta=delta, finish_reason=None, logprobs=self._logprobs(part)))

    def end(self, index: int, reason: FinishReason | None) -> ChatChunk:
        return self._chunk(ChatChunkChoice(index=index, delta=EmptyDelta(), finish_reason=reason, logprobs=None))

    def usage(self, results: Sequence[ChoiceList]) -> ChatChunk:
        return self._chunk(usage=token_usage(results))

    def _logprobs(self, choice: TextChoice) -> ChatLogprobs | None:
        return ChatLogprobs.of(choice.tokens) if self.scored else None

    def _chunk(self, *choices: ChatChunkChoice, usage: TokenUsage | None = None) -> ChatChunk:
        return ChatChunk(id=self.id, created=self.created, model=self.model, choices=list(choices), usage=usage)


def all_choices(results: Sequence[ChoiceList]) -> list[TextChoice]:
    """Return the choices for all prompts in the order in which they are numbered."""
    return [choice for result in results for choice in result.choices]


def token_usage(results: Sequence[ChoiceList]) -> TokenUsage:
    n_prompt = sum(result.n_prompt for result in results)
    n_output = sum(result.n_generated for result in results)
    return TokenUsage(prompt_tokens=n_prompt, completion_tokens=n_output, total_tokens=n_prompt + n_output)
