"""The answer to a request for completions: its parameters become jobs, their results a response or a stream."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from fastapi import Request
from fastapi.responses import Response, StreamingResponse

from regard.pipelines.base import Pipeline
from regard.pipelines.generator import Generator
from regard.pipelines.translator import Translator
from regard.search.decode import DecodeConfig
from regard.search.sampling import SamplingConfig, TokenPenalties
from regard.serve.choices import ChoiceList, TextChoice
from regard.serve.dispatch import Dispatcher, JobDone, JobEvent, JobFailed, JobUpdate
from regard.serve.errors import as_api_error, invalid_parameter, openai_error, text_too_long
from regard.serve.generation_job import GenerationJob, GenerationOptions, IndexedPart, Prompt
from regard.serve.openai_format import AnswerFormat, all_choices
from regard.serve.registry import ServedModel
from regard.serve.schemas.base import ResponseBody
from regard.serve.schemas.openai_requests import ChatRequest, CompletionRequest
from regard.serve.translation_choices import ChoiceOptions, TranslationChoicesJob
from regard.text.tokenizer import Tokenizer
from regard.text.vocab import SPECIALS, UNK

_DEFAULT_MAX_TOKENS = 200
_MIN_TEMPERATURE = 1e-3  # instead of 0, by which scores cannot be divided
_MIN_TOP_P = 1e-9  # instead of 0, which leaves no token

T = TypeVar("T")
TextOrIds = str | Sequence[int]
"""A text, or its token ids"""


@dataclass(frozen=True)
class Answer:
    """The answer to one request."""

    dispatcher: Dispatcher
    served: ServedModel[Pipeline]
    to: str | None
    """The target language that the name of the model selects"""
    body: CompletionRequest | ChatRequest
    format: AnswerFormat

    async def respond(self, request: Request, prompts: Sequence[TextOrIds]) -> ResponseBody | Response:
        """Run the model on the prompts, and return all choices or a stream of their parts."""
        self._check_parameters()
        if (translator := self.served.narrow(Translator)) is not None:
            # A beam search may still change the beginning of a translation, so each is sent when it is complete.
            results = await self.dispatcher.run(request, await self._translation_jobs(translator, prompts))
            return _event_stream(self._events(results)) if self.body.stream else await self._response(results)
        if (generator := self.served.narrow(Generator)) is None:
            raise invalid_parameter("model", "this model neither continues nor translates texts")
        make_job = self._job_maker(generator, prompts)
        if not self.body.stream:
            [results] = await self.dispatcher.run(request, [make_job(None)])
            return await self._response(results)
        events = self.dispatcher.stream(make_job)
        first = await anext(events)
        if isinstance(first, JobFailed):  # nothing has been sent, so the error can have its status
            raise first.error
        return _event_stream(self._live_events(first, events))

    def _check_parameters(self) -> None:
        """Refuse parameters that contradict each other."""
        body = self.body
        if body.stream_options is not None and not body.stream:
            raise invalid_parameter("stream_options", "it is for streamed answers; set stream to true")
        if isinstance(body, ChatRequest):
            if body.top_logprobs is not None and not body.logprobs:
                raise invalid_parameter("top_logprobs", "it needs logprobs: true")
            if None not in (body.max_tokens, body.max_completion_tokens) and body.max_tokens != body.output_tokens:
                raise invalid_parameter("max_tokens", "it differs from max_completion_tokens; send one of them")
        elif body.best_of is not None:
            if body.best_of < self._n:
                raise invalid_parameter("best_of", "it must be at least n")
            if body.stream and body.best_of > self._n:
                raise invalid_parameter("best_of", "the best of several choices cannot be streamed")

    @property
    def _n(self) -> int:
        return self.body.n or 1

    @property
    def _best_of(self) -> int:
        """The number of candidates"""
        return max(self._n, getattr(self.body, "best_of", None) or 1)

    @property
    def _echo(self) -> bool:
        return bool(getattr(self.body, "echo", None))

    @property
    def _seed(self) -> int:
        return (secrets.randbelow(2**31) if self.body.seed is None else self.body.seed) % 2**63

    async def _translation_jobs(
        self, served: ServedModel[Translator], prompts: Sequence[TextOrIds]
    ) -> list[TranslationChoicesJob]:
        """Return one job per text to translate."""
        if self._echo:
            raise invalid_parameter("echo", "it is for language models; a translation does not continue its source")
        for name in ("presence_penalty", "frequency_penalty", "logit_bias"):
            if getattr(self.body, name):
                raise invalid_parameter(name, "it is for language models")
        tokenizer, body = served.pipeline.src_tokenizer, self.body
        texts = [
            prompt if isinstance(prompt, str) else tokenizer.decode(check_ids(tokenizer, prompt, "prompt"))
            for prompt in prompts
        ]
        if self.to is None and served.targets and not all(map(served.pipeline.directions.has_tag, texts)):
            raise invalid_parameter("model", f"choose a target language: {', '.join(served.names[1:])}")
        self._check_candidates(sum(map(len, texts)))
        await self.dispatcher.check_translations(served, texts, self.to)
        max_tokens = body.output_tokens
        if body.n_top is not None:
            max_tokens = self.dispatcher.limits.tokens if max_tokens is None else max_tokens
            self._check_scores(len(texts) * max_tokens)
        config = self._decode_config(served.pipeline.decode_config)
        options = ChoiceOptions(self._n, max_tokens, body.stop_sequences, body.n_top)
        return [TranslationChoicesJob(served, (text,), config, options=options, to=self.to) for text in texts]

    def _decode_config(self, own: DecodeConfig) -> DecodeConfig:
        """Return the settings of a translator: it searches, unless a temperature above 0 or a top_p is given."""
        temperature, top_p = self.body.temperature, self.body.top_p
        samples = temperature > 0.0 if temperature is not None else top_p is not None and top_p < 1.0
        if not samples:
            sampling = None if temperature == 0.0 else own.sampling
            width = max(own.beam, self._best_of)
            return own.model_copy(update={"beam": width, "n_best": self._n, "sampling": sampling})
        sampling = SamplingConfig(temperature=_positive(temperature), top_p=_top_p(top_p), seed=self._seed)
        return own.model_copy(update={"n_best": self._best_of, "sampling": sampling})

    def _job_maker(
        self, served: ServedModel[Generator], prompts: Sequence[TextOrIds]
    ) -> Callable[[Callable[[IndexedPart], None] | None], GenerationJob]:
        """Return a function that makes the job, given where to report parts of the texts."""
        body = self.body
        if len(prompts) * self._best_of > (most := self.dispatcher.limits.texts):
            raise invalid_parameter("n", f"a request may generate {most} texts")
        self.dispatcher.check_chars(prompts)
        texts = tuple(self._prompt(served, prompt) for prompt in prompts)
        default = min(_DEFAULT_MAX_TOKENS, self.dispatcher.limits.tokens)
        max_tokens = default if body.output_tokens is None else body.output_tokens
        self._check_scores(sum(max_tokens + len(text.ids) * self._echo for text in texts))
        options = GenerationOptions(
            max_tokens=max_tokens,
            temperature=_positive(body.temperature),
            top_p=_top_p(body.top_p),
            seed=self._seed,
            n=self._n,
            best_of=self._best_of,
            stop=body.stop_sequences,
            n_top=body.n_top,
            penalties=self._penalties(served.pipeline.tokenizer),
            echo=self._echo,
        )
        return lambda report: GenerationJob(served, texts, options, report)

    def _check_candidates(self, n_chars: int) -> None:
        """Refuse to generate several translations of texts that are too long for it."""
        most = self.dispatcher.limits.chars // self._best_of
        if self._best_of > 1 and n_chars > most:
            raise text_too_long(f"for {self._best_of} choices, a text may have {most:,} characters, not {n_chars:,}")

    def _check_scores(self, n_tokens: int) -> None:
        """Refuse to score so many tokens in each of n choices, if that is too much for a response."""
        most, n_top = self.dispatcher.limits.scores, self.body.n_top
        if n_top is not None and self._n * n_tokens * (1 + n_top) > most:
            raise invalid_parameter("logprobs", f"a response may have {most:,} scores; lower max_tokens, n or logprobs")

    def _penalties(self, tokenizer: Tokenizer) -> TokenPenalties | None:
        """Return what changes the probabilities of tokens; None: nothing."""
        presence, frequency = self.body.presence_penalty or 0.0, self.body.frequency_penalty or 0.0
        bias = tuple((int(token), value) for token, value in (self.body.logit_bias or {}).items())
        if any(token >= tokenizer.size for token, _ in bias):
            raise invalid_parameter("logit_bias", "there is a number that is not a token of this model")
        return TokenPenalties(presence, frequency, bias) if presence or frequency or bias else None

    def _prompt(self, served: ServedModel[Generator], prompt: TextOrIds) -> Prompt:
        """Return the text and the tokens of a prompt."""
        generator, most = served.pipeline, self.dispatcher.limits.tokens
        if isinstance(prompt, str):
            self.dispatcher.check_text(served, prompt)
            result = Prompt(prompt, tuple(generator.tokenizer.encode([prompt])[0]))
        else:
            ids = check_ids(generator.tokenizer, prompt, "prompt")
            result = Prompt(generator.tokenizer.decode(ids), tuple(ids))
        if self._echo and self.body.n_top is not None:
            most = min(most, generator.context)
        if len(result.ids) > most:
            raise text_too_long(f"a prompt may have {most:,} tokens")
        return result

    async def _response(self, results: Sequence[ChoiceList]) -> ResponseBody | Response:
        """Return all choices. With scores this takes long, so the event loop is not kept waiting."""
        if not self.format.scored:
            return self.format.response(results)
        content = await asyncio.to_thread(lambda: self.format.response(results).model_dump_json())
        return Response(content, media_type="application/json")

    async def _events(self, results: Sequence[ChoiceList]) -> AsyncIterator[str]:
        """Yield each choice as one event, and how it ends."""
        for index, choice in enumerate(all_choices(results)):
            yield await asyncio.to_thread(self._first_event, index, TextChoice(choice.text, choice.tokens))
        for chunk in self._last_chunks(results):
            yield chunk.as_event()

    async def _live_events(
        self,
        first: JobEvent[IndexedPart, list[ChoiceList]],
        others: AsyncIterator[JobEvent[IndexedPart, list[ChoiceList]]],
    ) -> AsyncIterator[str]:
        """Yield the parts of choices as they are generated."""
        started = set[int]()
        async for event in _chain(first, others):
            match event:
                case JobUpdate(IndexedPart(index, part)):
                    yield self.format.part(index, part, is_first=index not in started).as_event()
                    started.add(index)
                case JobDone(results):
                    for chunk in self._last_chunks(results):
                        yield chunk.as_event()
                case JobFailed(error):
                    yield openai_error(as_api_error(error)).as_event()

    def _first_event(self, index: int, part: TextChoice) -> str:
        return self.format.part(index, part, is_first=True).as_event()

    def _last_chunks(self, results: Sequence[ChoiceList]) -> Iterator[ResponseBody]:
        for index, choice in enumerate(all_choices(results)):
            yield self.format.end(index, choice.finish_reason)
        if self.body.includes_usage:
            yield self.format.usage(results)


def check_ids(tokenizer: Tokenizer, ids: Sequence[int], param: str) -> Sequence[int]:
    """Refuse ids that no text has."""
    if not all(len(SPECIALS) <= i < tokenizer.size or i == UNK for i in ids):
        raise invalid_parameter(param, "there is a number that is not a token of this model; see /v1/tokenize")
    return ids


def _positive(temperature: float | None) -> float:
    return 1.0 if temperature is None else max(temperature, _MIN_TEMPERATURE)


def _top_p(top_p: float | None) -> float:
    return 1.0 if top_p is None else max(top_p, _MIN_TOP_P)


def _event_stream(events: AsyncIterator[str]) -> StreamingResponse:
    async def all_events() -> AsyncIterator[str]:
        async for event in events:
            yield event
        yield "data: [DONE]\n\n"

    return StreamingResponse(all_events(), media_type="text/event-stream")


async def _chain(first: T, others: AsyncIterator[T]) -> AsyncIterator[T]:
    yield first
    async for other in others:
        yield other
