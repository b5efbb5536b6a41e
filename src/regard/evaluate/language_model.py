"""Evaluation of language models: loss, perplexity and bits per byte."""

import math
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from regard.data.batch import Batch
from regard.data.text_batches import windows
from regard.data.text_files import TextFiles
from regard.data.text_store import TextStore, open_text
from regard.errors import UserError
from regard.evaluate.result import TestResult, describe_problems
from regard.evaluate.validation import mean_loss
from regard.pipelines.generator import Generator
from regard.text.tokenizer import Tokenizer

_BATCH_TOKENS = 8192


def evaluate_language_model(generator: Generator, path: Path, stride: int | None = None) -> TestResult:
    """Measure perplexity and bits per byte of a text file.

    Windows of the model's context start every `stride` tokens (default: the context). A smaller stride gives each
    token more context and takes longer.
    """
    with closing(TextFiles((path,)).read()) as text:
        store = open_text(text, generator.tgt_tokenizer)
    if not store.n_bytes:
        raise UserError(f"{path}: contains no text")
    stride = stride or generator.context
    batches = window_batches(store, generator.context, stride, _BATCH_TOKENS)
    loss = mean_loss(generator.model, batches, generator.device, lambda: None)
    notes = (f"context {generator.context}, stride {stride}", *describe_problems(store.report))
    values = {"tokens": len(store), "loss": loss, **perplexity_scores(loss, store, generator.tgt_tokenizer)}
    return TestResult(values, notes)


def perplexity_scores(loss: float, store: TextStore, tokenizer: Tokenizer) -> dict[str, float]:
    """Return the perplexity per token and, for a lossless tokenizer, the bits per byte.

    Bits per byte compares models with different tokenizers. A tokenizer that drops white space does not predict all
    bytes of the text, so its bits per byte would be too low.
    """
    scores = {"perplexity": math.exp(min(loss, 700.0))}
    if tokenizer.lossless and store.n_bytes:
        scores["bits_per_byte"] = loss * len(store) / math.log(2) / store.n_bytes
    return scores


def window_batches(store: TextStore, context: int, stride: int, tokens: int) -> Iterator[Batch]:
    """Yield batches of about `tokens` tokens in which every token of the text is a target exactly once."""
    remaining = windows(store.ids, context, stride)
    while rows := list(islice(remaining, max(1, tokens // context))):
        tgt_in, tgt_out = (torch.from_numpy(np.stack(side)) for side in zip(*rows, strict=True))
        yield Batch(torch.empty(len(rows), 0, dtype=torch.int64), tgt_in, tgt_out)
