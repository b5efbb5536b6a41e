"""How long an update takes on this machine, measured."""

import time

import torch

from regard import models
from regard.data.batch import Batch
from regard.memory import OutOfMemoryCaught, release_memory
from regard.text.vocab import BOS, SPECIALS
from regard.train.gradients import Gradients, uses_half
from regard.train.optim import Optimizer
from regard.train.recipe import Recipe

_LENGTH = 24  # tokens of a sentence
_UPDATES = 2  # the fastest counts
_GPU_UPDATES = 6  # the first ones compile and capture
_CPU_TOKENS = 512  # on a CPU the time of the gradients grows with the tokens, so that few are enough


def measure_update_time(recipe: Recipe, device: torch.device, ranks: int = 1) -> float:
    """Return the seconds that one update of a translator takes, from some updates on random tokens.

    Of several ranks, each computes a part of the gradients; the time to add them is not counted.
    """
    on_gpu, tokens = device.type == "cuda", recipe.batch.tokens
    n_sentences = max(1, (tokens if on_gpu else min(tokens, _CPU_TOKENS)) // _LENGTH)
    with OutOfMemoryCaught() as full:
        gradients, step = _measure(recipe, device, n_sentences)
    release_memory()
    if full:  # the run will compute each batch in parts
        half = recipe.batch.model_copy(update={"tokens": max(1, tokens // 2)})
        return 2 * measure_update_time(recipe.model_copy(update={"batch": half}), device, ranks)
    return gradients * recipe.train.accumulate * tokens / (n_sentences * _LENGTH) / ranks + step


def _measure(recipe: Recipe, device: torch.device, n_sentences: int) -> tuple[float, float]:
    """Return the seconds for the gradients of `n_sentences` sentences, and those for the optimizer's step."""
    vocab, on_gpu = recipe.tokenizer.vocab_size, device.type == "cuda"
    model = models.build(recipe.model, vocab, None if recipe.tokenizer.joint else vocab).to(device).train()
    gradients = Gradients(model, recipe.train)
    recorded, half = bool(recipe.train.cuda_graphs) and on_gpu, uses_half(recipe.train, device)
    optimizer = Optimizer(model, recipe.train, recorded, half)
    ids = torch.randint(len(SPECIALS), vocab, (2, n_sentences, _LENGTH + 1), generator=torch.Generator().manual_seed(0))
    ids[1, :, 0] = BOS
    batch = Batch.of(ids[0, :, 1:].contiguous(), ids[1])
    times = []
    for _ in range(_GPU_UPDATES if on_gpu else _UPDATES):
        start = _now(device)
        gradients.compute([batch], 1.0 / (n_sentences * _LENGTH))
        middle = _now(device)
        optimizer.step(0.0)
        times.append((middle - start, _now(device) - middle))
    return min(times, key=sum)


def _now(device: torch.device) -> float:
    """Return the time when the device has done everything that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
