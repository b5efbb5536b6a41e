"""Tasks on plain text: next-token prediction, and masked-token prediction."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from regard.data.batch import Batch, run_parts
from regard.data.batch_order import BatchConfig
from regard.data.text_batches import MaskedBatches, TextBatches
from regard.data.text_files import ParsedText, TextFiles
from regard.data.text_store import TextStore, open_text
from regard.errors import UserError
from regard.evaluate.language_model import perplexity_scores, window_batches
from regard.evaluate.validation import Validation, ValidConfig, mean_loss
from regard.models import Model
from regard.text.tokenizer import Tokenizer, TokenizerPair, train_tokenizer
from regard.text.vocab import PAD
from regard.train.log import RunLog
from regard.train.recipe import Recipe
from regard.train.tasks.base import Task, TaskData, check_model, check_resampling, sample_texts

_HELD_OUT = 0.1  # of the text, if there is no validation file
_MASKED_BATCHES = 16  # per validation
_DECODE_TOKENS = 1 << 16  # decoded at a time


class LanguageModelTask(Task):
    noun = "text-generation"
    example = 'regard generate DIR --prompt "…"'
    code = 'print(regard.load("this-folder").generate("…", temperature=0.8))'

    @classmethod
    def check(cls, recipe: Recipe) -> None:
        check_model(recipe, "decoder")
        check_resampling(recipe)

    @cached_property
    def train_text(self) -> ParsedText:
        return self.resources.enter_context(closing(TextFiles(self.files.train).read()))

    def train_tokenizers(self) -> TokenizerPair:
        pieces = sample_texts(self.train_text.pieces, self.recipe.train.seed)
        if not pieces:
            raise UserError(f"{self.files.train[0]}: contains no text")
        tokenizer = train_tokenizer(pieces, self.recipe.tokenizer)
        return TokenizerPair(tokenizer, tokenizer)

    def load_data(self, tokenizers: TokenizerPair, folder: Path, log: RunLog) -> TaskData:
        recipe = self.recipe
        train, valid = self.split(tokenizers.src, log)
        context = recipe.batch.context
        batches = TextBatches(train, recipe.batch, recipe.train.seed, context)
        return TaskData(batches, PerplexityValidator(valid, tokenizers.src, context, recipe.valid, recipe.batch))

    def split(self, tokenizer: Tokenizer, log: RunLog) -> tuple[TextStore, TextStore]:
        """Return training and validation text; without a validation file the last tenth of the text is held out."""
        store = _tokenise(self.train_text, tokenizer, "training data", log)
        if self.files.valid is None:
            return _hold_out(store, tokenizer, log)
        with closing(TextFiles(self.files.valid).read()) as text:
            return store, _tokenise(text, tokenizer, "validation data", log)


class MaskedTokenTask(LanguageModelTask):
    noun = "fill-mask"
    example = "regard train LABELLED.tsv --recipe classifier --init DIR --out …"
    code = 'print(regard.load("this-folder").embed(["…"]))'

    @classmethod
    def check(cls, recipe: Recipe) -> None:
        check_model(recipe, "encoder")
        check_resampling(recipe)

    def load_data(self, tokenizers: TokenizerPair, folder: Path, log: RunLog) -> TaskData:
        recipe = self.recipe
        train, valid = self.split(tokenizers.src, log)
        batches = MaskedBatches(train, recipe.batch, recipe.train.seed, recipe.batch.context)
        valid_batches = MaskedBatches(valid, recipe.batch, 0, min(recipe.batch.context, len(valid)))
        return TaskData(batches, MaskedValidator(valid_batches, recipe.valid))


def _tokenise(text: ParsedText, tokenizer: Tokenizer, name: str, log: RunLog) -> TextStore:
    store = open_text(text, tokenizer, warn=log.info)
    for line in store.report.describe(name):
        log.info(line)
    return store


def _hold_out(store: TextStore, tokenizer: Tokenizer, log: RunLog) -> tuple[TextStore, TextStore]:
    """Split a text into its beginning and its last tenth."""
    cut = int(len(store) * (1 - _HELD_OUT))
    log.info(f"validation data: the last {len(store) - cut:,} of {len(store):,} tokens")
    if cut == 0 or cut == len(store):
        raise UserError(f"{len(store)} tokens are too few to hold some out for validation; give a --valid file")
    held_out = store.ids[cut:]
    texts = (
        tokenizer.decode(held_out[i : i + _DECODE_TOKENS].tolist()) for i in range(0, len(held_out), _DECODE_TOKENS)
    )
    n_bytes = sum(len(text.encode()) for text in texts)

    def part(ids: NDArray[Any], size: int, name: str) -> TextStore:
        return replace(store, ids=ids, n_bytes=size, fingerprint=f"{store.fingerprint} {name} {cut}")

    return part(store.ids[:cut], store.n_bytes - n_bytes, "until"), part(held_out, n_bytes, "from")


@dataclass(frozen=True)
class PerplexityValidator:
    """Validates a language model on every token of a text, predicted from the tokens before it in its window."""

    store: TextStore
    tokenizer: Tokenizer
    context: int
    config: ValidConfig
    batch: BatchConfig

    @property
    def fingerprint(self) -> str:
        return self.store.fingerprint

    @property
    def size(self) -> int:
        return len(self.store)

    def __call__(self, model: Model, device: torch.device, check_stop: Callable[[], None]) -> Validation:
        model.eval()
        batches = window_batches(self.store, self.context, self.context, self.batch.tokens)
        loss = mean_loss(model, batches, device, check_stop)
        return Validation(loss, -loss, perplexity_scores(loss, self.store, self.tokenizer))


@dataclass(frozen=True)
class MaskedValidator:
    """Validates on some fixed batches with masked tokens: loss and accuracy."""

    batches: MaskedBatches
    config: ValidConfig

    @property
    def fingerprint(self) -> str:
        return self.batches.fingerprint

    @property
    def size(self) -> int:
        return len(self.batches.store)

    def __call__(self, model: Model, device: torch.device, check_stop: Callable[[], None]) -> Validation:
        model.eval()
        n = min(_MASKED_BATCHES, len(self.batches.plan(0)))
        batches = [self.batches.batch(0, i) for i in range(n)]
        loss = mean_loss(model, batches, device, check_stop)
        return Validation(loss, -loss, {"accuracy": 100.0 * _accuracy(model, batches, device)})


@torch.inference_mode()
def _accuracy(model: Model, batches: list[Batch], device: torch.device) -> float:
    """Return the share of tokens to predict that are the model's most likely token."""
    correct = total = 0

    def count(batch: Batch) -> int:
        return int((model(batch).argmax(-1) == batch.tgt_out)[batch.tgt_out != PAD].sum())

    for batch in batches:
        correct += sum(run_parts(count, batch, device))
        total += int((batch.tgt_out != PAD).sum())
    return correct / max(1, total)
