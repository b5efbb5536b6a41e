"""Pictures with captions: a TSV of picture and caption."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.batch import Batch
from regard.data.images import CaptionFile, ImageBatches, ImageStore, collate_images
from regard.errors import UserError
from regard.evaluate.validation import GenerationValidator
from regard.models import Model
from regard.pipelines.captioner import Captioner
from regard.search.decode import DecodeConfig
from regard.text.tokenizer import TokenizerPair, train_tokenizer
from regard.train.log import RunLog
from regard.train.recipe import Recipe
from regard.train.tasks.base import Data, Files, check_dropout, check_model, only_file, sample

_HOLD_OUT = 0.05


class Captioning:
    noun: str = "image-to-text"
    example: str = "regard caption DIR PICTURE.png"
    code: str = 'print(regard.load("this-folder").caption(["picture.png"])[0].text)'

    def check(self, recipe: Recipe) -> None:
        check_model(recipe, "encoder-decoder")
        check_dropout(recipe)

    def tokenizers(self, files: Files) -> TokenizerPair:
        captions = [caption for _, caption in _pictures(files.train).pairs()]
        tokenizer = train_tokenizer(sample(captions, files.recipe.train.seed), files.recipe.tokenizer)
        return TokenizerPair(tokenizer, tokenizer)

    def data(self, files: Files, tokenizers: TokenizerPair, folder: Path, log: RunLog) -> Data:
        recipe = files.recipe
        size = recipe.model.encoder.size  # type: ignore[union-attr]  # `check` has seen to it
        encode = tokenizers.tgt.encode
        pictures = _pictures(files.train)
        store = pictures.store(encode, size, folder / "train.pictures")
        log.say(f"training data: {len(store):,} captions of {len(store.array):,} pictures")
        rows = np.arange(len(store))
        if files.valid is not None:
            judge = _pictures(files.valid)
            valid, valid_rows = judge.store(encode, size, folder / "valid.pictures"), None
        else:
            judge, valid = pictures, store
            # All captions of a picture are on one side.
            held = store.which % round(1 / _HOLD_OUT) == 0
            rows, valid_rows = rows[~held], rows[held]
            if not len(rows) or not len(valid_rows):
                raise UserError(f"{len(store)} captions are too few to hold some out; give a --valid file")
        chosen = np.arange(len(valid)) if valid_rows is None else valid_rows
        rows = _short(store, rows, recipe.batch.max_tokens, "training data", log)
        chosen = _short(valid, chosen, recipe.batch.max_tokens, "validation data", log)
        pairs = judge.pairs()
        texts = [(pairs[i][0].name, pairs[i][1]) for i in chosen[: recipe.valid.sentences]]
        validator = CaptionValidator(chosen, texts, tokenizers, recipe.valid, recipe.decode, valid)
        return Data(ImageBatches(store, rows, recipe.batch, recipe.train.seed), validator)


def _short(store: ImageStore, rows: NDArray[np.int64], most: int, name: str, log: RunLog) -> NDArray[np.int64]:
    """Those with captions of at most so many tokens; the others are reported."""
    kept = rows[np.diff(store.ends)[rows] <= most]
    if len(kept) < len(rows):
        log.say(f"{name}: {len(rows) - len(kept):,} × longer than {most} tokens, left out")
    if not len(kept):
        raise UserError(f"{name}: no caption of at most batch.max_tokens={most} tokens")
    return kept


def _pictures(paths: tuple[Path, ...]) -> CaptionFile:
    return CaptionFile(only_file(paths, "captions (a TSV of picture and caption)"))


@dataclass(frozen=True)
class CaptionValidator(GenerationValidator):
    """The validation captions; a picture is named by its file."""

    store: ImageStore

    def batches(self) -> Iterator[Batch]:
        return self._first(len(self.rows))

    def generate(self, model: Model, device: torch.device, config: DecodeConfig) -> Iterator[str]:
        captioner = Captioner(model, self.tokenizers, config, device)
        for batch in self._first(len(self.texts)):
            yield from (caption.text for caption in captioner.caption_batch(batch))

    def _first(self, n: int) -> Iterator[Batch]:
        for i in range(0, n, 128):
            yield collate_images(self.store, self.rows[i : min(n, i + 128)])
