"""Tokens and options as the page's API writes and reads them."""

import base64
from collections.abc import Sequence
from typing import Any

from regard.pipelines.captioner import Captioner
from regard.pipelines.generator import Generator
from regard.pipelines.translator import Translator
from regard.serve import schemas as schema
from regard.serve.errors import ApiError
from regard.serve.inspect import check_maskable, source_tokenizer, target_tokenizer
from regard.serve.registry import Served
from regard.text.clean import clean
from regard.text.tokenizer import Tokenizer
from regard.text.words import word_indices


def tokens_of(tokenizer: Tokenizer, ids: Sequence[int]) -> list[dict[str, Any]]:
    names = tokenizer.tokens(ids)
    words = word_indices(names)
    return [{"id": int(i), "text": name, "word": word} for i, name, word in zip(ids, names, words, strict=True)]


def named(tokens: Sequence[str]) -> list[dict[str, Any]]:
    return [{"text": token, "word": word} for token, word in zip(tokens, word_indices(tokens), strict=True)]


def token_of(tokenizer: Tokenizer, token: int) -> dict[str, Any]:
    return {"id": token, "text": tokenizer.tokens([token])[0], "word": -1}


def options_of(served: Served, asked: schema.Decoding, **more: Any) -> tuple[tuple[str, Any], ...]:
    given = {"beam": asked.beam, "max_len": asked.max_len, "length_penalty": asked.length_penalty, **more}
    options = {name: value for name, value in given.items() if value is not None}
    if isinstance(served.pipeline, Translator):
        beam = options.get("beam", served.pipeline.decode_config.beam)
        options["beam"] = max(beam, options.get("n_best", 1))
    return tuple(sorted(options.items()))


def said_of(served: Served, text: str, prefix: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What is the source and what has been said: a language model's text is the beginning of what it says"""
    if any(token >= target_tokenizer(served).size for token in prefix):
        raise ApiError(422, "Invalid request", "an id is outside of the vocabulary")
    if isinstance(served.pipeline, Captioner):
        return (), tuple(prefix)
    if isinstance(served.pipeline, Generator):
        return (), (*served.pipeline.tokenizer.encode([text])[0], *prefix)
    return tuple(source_tokenizer(served).encode([clean(text)])[0]), tuple(prefix)


def check_says(served: Served) -> None:
    if not isinstance(served.pipeline, Translator | Generator | Captioner):
        raise ApiError(422, "Invalid request", "that model says nothing")


def pixels_of(served: Served, given: str | None) -> bytes | None:
    """A picture for a captioner, which the page has cut and scaled: no image file is ever opened here"""
    if not isinstance(served.pipeline, Captioner):
        if given is not None:
            raise ApiError(422, "Invalid request", "that model sees no pictures")
        return None
    try:
        pixels = base64.b64decode(given or "", validate=True)
    except ValueError:
        pixels = b""
    if len(pixels) != 3 * served.pipeline.size**2:
        raise ApiError(
            422, "Invalid request", f"pixels must be {served.pipeline.size} × {served.pipeline.size} × 3 bytes"
        )
    return pixels


def what_if(
    served: Served, asked: schema.Trace | schema.Next
) -> tuple[tuple[int, ...], tuple[tuple[str, int, int], ...]]:
    """Source tokens that are hidden, and heads that are switched off"""
    if asked.mask_src:
        check_maskable(served)
    off = tuple((kind, int(layer), int(head)) for kind, layer, head in (each.split(".") for each in asked.ablate))
    return tuple(asked.mask_src), off
