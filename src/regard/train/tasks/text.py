"""Plain text: a language model learns what comes next, an encoder what was hidden."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from regard.data.batch import Batch
from regard.data.batching import BatchConfig
from regard.data.corpus import CorpusReport
from regard.data.text_store import MaskedBatches, TextBatches, TextFiles, TextStore, open_text
from regard.errors import UserError
from regard.evaluate.language_model import perplexity_scores, window_batches
from regard.evaluate.validation import Validation, ValidConfig, mean_loss
from regard.models import Model
from regard.text.tokenizer import Tokenizer, TokenizerPair, train_tokenizer
from regard.text.vocab import PAD
from regard.train.log import RunLog
from regard.train.recipe import Recipe
from regard.train.tasks.base import Data, Files, check_dropout, check_model, sample

_HOLD_OUT = 0.1  # of the text, where no validation text is given
_MASKED_BATCHES = 16
_PIECE = 1 << 16


class LanguageModelling:
    noun: str = "text-generation"
    example: str = 'regard generate DIR --prompt "…"'
    code: str = 'print(regard.load("this-folder").generate("…", temperature=0.8))'

    def check(self, recipe: Recipe) -> None:
        check_model(recipe, "decoder")
        check_dropout(recipe)

    def tokenizers(self, files: Files) -> TokenizerPair:
        pieces = sample(TextFiles(files.train).pieces(CorpusReport()), files.recipe.train.seed)
        if not pieces:
            raise UserError(f"{files.train[0]}: no text in it")
        tokenizer = train_tokenizer(pieces, files.recipe.tokenizer)
        return TokenizerPair(tokenizer, tokenizer)

    def data(self, files: Files, tokenizers: TokenizerPair, folder: Path, log: RunLog) -> Data:
        recipe = files.recipe
        train, valid = split_text(files, tokenizers, log)
        context = recipe.batch.context
        batches = TextBatches(train, recipe.batch, recipe.train.seed, context)
        return Data(batches, TextValidator(valid, tokenizers.src, context, recipe.valid, recipe.batch))


class MaskedTokens(LanguageModelling):
    noun: str = "fill-mask"
    example: str = "regard train LABELLED.tsv --recipe classifier --init DIR --out …"
    code: str = 'print(regard.load("this-folder").embed(["…"]))'

    def check(self, recipe: Recipe) -> None:
        check_model(recipe, "encoder")
        check_dropout(recipe)

    def data(self, files: Files, tokenizers: TokenizerPair, folder: Path, log: RunLog) -> Data:
        recipe = files.recipe
        train, valid = split_text(files, tokenizers, log)
        batches = MaskedBatches(train, recipe.batch, recipe.train.seed, recipe.batch.context)
        judged = MaskedBatches(valid, recipe.batch, 0, min(recipe.batch.context, len(valid)))
        return Data(batches, MaskedValidator(judged, recipe.valid))


def split_text(files: Files, tokenizers: TokenizerPair, log: RunLog) -> tuple[TextStore, TextStore]:
    """Training and validation text; without a validation file the end of the text is held out."""
    store = open_text(files.train, tokenizers.src)
    for line in store.report.describe("training data"):
        log.say(line)
    if files.valid is not None:
        valid = open_text(files.valid, tokenizers.src)
        for line in valid.report.describe("validation data"):
            log.say(line)
        return store, valid
    cut = int(len(store) * (1 - _HOLD_OUT))
    log.say(f"validation data: the last {len(store) - cut:,} of {len(store):,} tokens")
    if cut == 0 or cut == len(store):
        raise UserError(f"{len(store)} tokens are too few to hold some out; give a --valid file")
    held = store.ids[cut:]
    pieces = (tokenizers.src.decode(held[i : i + _PIECE].tolist()) for i in range(0, len(held), _PIECE))
    n_bytes = sum(len(piece.encode()) for piece in pieces)

    def part(ids: NDArray[Any], size: int, name: str) -> TextStore:
        return replace(store, ids=ids, n_bytes=size, fingerprint=f"{store.fingerprint} {name} {cut}")

    return part(store.ids[:cut], store.n_bytes - n_bytes, "until"), part(held, n_bytes, "from")


@dataclass(frozen=True)
class TextValidator:
    """Every token of the validation text, predicted from those of its window before it."""

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
        return Validation(loss, -loss, {"accuracy": 100.0 * _found(model, batches, device)})


@torch.inference_mode()
def _found(model: Model, batches: list[Batch], device: torch.device) -> float:
    """The share of hidden tokens that are the model's first guess"""
    right = total = 0
    for batch in batches:
        moved = batch.to(device)
        asked = moved.tgt_out != PAD
        right += int((model(moved).argmax(-1) == moved.tgt_out)[asked].sum())
        total += int(asked.sum())
    return right / max(1, total)
