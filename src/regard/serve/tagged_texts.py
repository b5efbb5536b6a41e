"""Translating texts with markup by the queue: HTML, and the texts of documents."""

import asyncio
from collections.abc import Sequence

from fastapi import Request

from regard.alignment.transfer import MarkupTransfer
from regard.pipelines.translation import Translation
from regard.pipelines.translator import Translator
from regard.serve.dispatch import Dispatcher
from regard.serve.jobs import TextsJob
from regard.serve.registry import ServedModel
from regard.text.markup import TaggedText


async def translate_tagged(
    dispatcher: Dispatcher, request: Request, served: ServedModel[Translator], texts: Sequence[TaggedText], to: str
) -> list[str]:
    """Return the translations of texts to the language `to`, with their markup put back in.

    The caller has checked the lengths.
    """
    config = served.pipeline.decode_config
    groups = [[text for text in texts if text.has_markup is has_markup] for has_markup in (False, True)]
    jobs = [
        TextsJob(served, tuple(text.plain for text in group), config, attention=has_markup, to=to)
        for group, has_markup in zip(groups, (False, True), strict=True)
        if group
    ]
    results = iter(await dispatcher.run(request, jobs) if jobs else [])
    translations = [iter(next(results) if group else ()) for group in groups]
    in_order = [next(translations[text.has_markup]) for text in texts]
    return await asyncio.to_thread(_restore_all, served.pipeline, texts, in_order)


def _restore_all(translator: Translator, texts: Sequence[TaggedText], translations: Sequence[Translation]) -> list[str]:
    transfer = MarkupTransfer(markup=True)
    pairs = zip(texts, translations, strict=True)
    return [transfer.tagged_translation(text, translation, translator) for text, translation in pairs]
