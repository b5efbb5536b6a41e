"""A first text for each model, before requests come: copies and traces for decoding are made then."""

from collections.abc import Iterator
from contextlib import suppress

from regard.errors import UserError
from regard.pipelines.generator import Generator
from regard.pipelines.translator import Translator
from regard.serve.batch_queue import Job, JobTimeout
from regard.serve.dispatch import Dispatcher
from regard.serve.generation_job import GenerationJob, GenerationOptions, Prompt
from regard.serve.jobs import TranslationJob
from regard.serve.registry import ServedModel

_TEXT = "a"
_OPTIONS = GenerationOptions(max_tokens=4, temperature=1.0, top_p=1.0, seed=1)


def warm_up(dispatcher: Dispatcher) -> None:
    """Let every translator and language model decode a text, in the thread that will decode for requests."""
    for translator in dispatcher.registry.of_kind(Translator):
        for job in _translations(translator):
            _run(dispatcher, job)
    for generator in dispatcher.registry.of_kind(Generator):
        [ids] = generator.pipeline.src_tokenizer.encode([_TEXT])
        _run(dispatcher, GenerationJob(generator, (Prompt(_TEXT, tuple(ids)),), _OPTIONS))


def _translations(served: ServedModel[Translator]) -> Iterator[Job[object]]:
    """Yield translations with and without alignments, which take different paths through the model."""
    text = next(iter(served.examples), _TEXT)
    to = next(iter(served.targets), None)
    for attention in (False, True):
        yield TranslationJob(served, text, served.pipeline.decode_config, attention=attention, to=to)


def _run(dispatcher: Dispatcher, job: Job[object]) -> None:
    [queued] = dispatcher.queues[job.queue].submit([job])
    with suppress(UserError, JobTimeout):  # the model may process other texts
        queued.result.result()
