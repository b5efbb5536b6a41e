"""Captioning: images with captions from a TSV."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.batch import Batch
from regard.data.image_store import CaptionedImage, ImageBatches, ImageStore, collate_images, read_captions
from regard.errors import UserError
from regard.evaluate.validation import GenerationValidator
from regard.models import Model
from regard.pipelines.captioner import Captioner
from regard.search.decode import DecodeConfig
from regard.text.tokenizer import TokenizerPair, train_tokenizer
from regard.train.log import RunLog
from regard.train.recipe import Recipe
from regard.train.tasks.base import Task, TaskData, check_model, check_resampling, only_file, sample_texts

_HELD_OUT = 20  # one in this many images, if there is no validation file
_VALID_ROWS = 128  # per batch

Rows = NDArray[np.int64]


class CaptionTask(Task):
    noun = "image-to-text"
    example = "regard caption DIR PICTURE.png"
    code = 'print(regard.load("this-folder").caption(["picture.png"])[0].text)'

    @classmethod
    def check(cls, recipe: Recipe) -> None:
        check_model(recipe, "encoder-decoder")
        check_resampling(recipe)

    @cached_property
    def train_captions(self) -> list[CaptionedImage]:
        return _read(self.files.train)

    def train_tokenizers(self) -> TokenizerPair:
        captions = [caption for _, caption in self.train_captions]
        tokenizer = train_tokenizer(sample_texts(captions, self.recipe.train.seed), self.recipe.tokenizer)
        return TokenizerPair(tokenizer, tokenizer)

    def load_data(self, tokenizers: TokenizerPair, folder: Path, log: RunLog) -> TaskData:
        recipe = self.recipe
        size = recipe.model.encoder.size  # type: ignore[union-attr]  # `check` requires an image encoder
        encode, max_tokens = tokenizers.tgt.encode, recipe.batch.max_tokens
        store = ImageStore.load(self.train_captions, encode, size, folder / "train.pictures")
        log.info(f"training data: {len(store):,} captions of {len(store.array):,} images")
        if self.files.valid is not None:
            valid_captions = _read(self.files.valid)
            valid = ImageStore.load(valid_captions, encode, size, folder / "valid.pictures")
            rows, valid_rows = np.arange(len(store)), np.arange(len(valid))
        else:
            valid_captions, valid = self.train_captions, store
            rows, valid_rows = _hold_out(store)
        rows = _drop_long(store, rows, max_tokens, "training data", log)
        valid_rows = _drop_long(valid, valid_rows, max_tokens, "validation data", log)
        first = [valid_captions[i] for i in valid_rows[: recipe.valid.sentences]]
        texts = [(image.name, caption) for image, caption in first]
        validator = CaptionValidator(valid_rows, texts, tokenizers, recipe.valid, recipe.decode, valid)
        return TaskData(ImageBatches(store, rows, recipe.batch, recipe.train.seed), validator)


def _read(paths: tuple[Path, ...]) -> list[CaptionedImage]:
    return read_captions(only_file(paths, "captions (a TSV of image and caption)"))


def _hold_out(store: ImageStore) -> tuple[Rows, Rows]:
    """Split the rows; all captions of an image are on the same side."""
    rows, held_out = np.arange(len(store)), store.which % _HELD_OUT == 0
    train, valid = rows[~held_out], rows[held_out]
    if not len(train) or not len(valid):
        raise UserError(f"{len(store)} captions are too few to hold some out for validation; give a --valid file")
    return train, valid


def _drop_long(store: ImageStore, rows: Rows, max_tokens: int, name: str, log: RunLog) -> Rows:
    """Return the rows with captions of at most `max_tokens` tokens and report the others."""
    short = rows[np.diff(store.ends)[rows] <= max_tokens]
    if len(short) < len(rows):
        log.info(f"{name}: {len(rows) - len(short):,} × longer than {max_tokens} tokens, left out")
    if not len(short):
        raise UserError(f"{name}: no caption has at most batch.max_tokens={max_tokens} tokens; raise it")
    return short


@dataclass(frozen=True)
class CaptionValidator(GenerationValidator):
    """Validates on images with captions; in samples an image is shown as its file name."""

    store: ImageStore

    def batches(self) -> Iterator[Batch]:
        return self._batches(len(self.rows))

    def generate(self, model: Model, device: torch.device, config: DecodeConfig) -> Iterator[str]:
        captioner = Captioner(model, self.tokenizers, config, device)
        for batch in self._batches(len(self.texts)):
            yield from (caption.text for caption in captioner.caption_batch(batch))

    def _batches(self, n: int) -> Iterator[Batch]:
        """Yield the first n rows."""
        for i in range(0, n, _VALID_ROWS):
            yield collate_images(self.store, self.rows[i : min(n, i + _VALID_ROWS)])
