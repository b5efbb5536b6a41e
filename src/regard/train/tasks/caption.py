"""Pictures with captions: a TSV of picture and caption."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from regard.captioner import Captioner
from regard.data.batch import Batch
from regard.data.batching import BatchConfig, Batches
from regard.data.pictures import Pictures, PictureStore, collate_pictures
from regard.errors import UserError
from regard.models import Model
from regard.models.encdec import EncoderDecoderConfig
from regard.models.image import ImageEncoderConfig
from regard.search.decode import DecodeConfig
from regard.text.tokenizer import TokenizerPair, train_tokenizer
from regard.train.log import RunLog
from regard.train.recipe import Recipe
from regard.train.tasks.task import Data, Files, check_dropout, check_model, only_file, sample
from regard.train.tasks.translate import judged
from regard.train.validate import Validation, ValidConfig, fingerprint_of, mean_loss

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
        recipe, size = files.recipe, picture_size(files.recipe)
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
        validator = CaptionValidator(valid, chosen, texts, tokenizers, recipe.valid, recipe.decode)
        return Data(PictureBatches(store, rows, recipe.batch, recipe.train.seed), validator)


def _short(store: PictureStore, rows: NDArray[np.int64], most: int, name: str, log: RunLog) -> NDArray[np.int64]:
    """Those with captions of at most so many tokens; the others are reported."""
    kept = rows[np.diff(store.ends)[rows] <= most]
    if len(kept) < len(rows):
        log.say(f"{name}: {len(rows) - len(kept):,} × longer than {most} tokens, left out")
    if not len(kept):
        raise UserError(f"{name}: no caption of at most batch.max_tokens={most} tokens")
    return kept


def picture_size(recipe: Recipe) -> int:
    model = recipe.model
    if not isinstance(model, EncoderDecoderConfig) or not isinstance(model.encoder, ImageEncoderConfig):
        raise UserError("captions need model.kind=encoder-decoder with model.encoder.kind=image")
    return model.encoder.size


def _pictures(paths: tuple[Path, ...]) -> Pictures:
    return Pictures(only_file(paths, "captions (a TSV of picture and caption)"))


@dataclass(frozen=True)
class PictureBatches(Batches):
    """Captions in random order; a batch holds as many as its budget has tokens for, 16 a caption."""

    store: PictureStore
    rows: NDArray[np.int64]
    config: BatchConfig
    seed: int
    _plans: dict[int, list[NDArray[np.int64]]] = field(default_factory=dict, repr=False)

    @property
    def fingerprint(self) -> str:
        return self.store.fingerprint

    @property
    def size(self) -> int:
        return len(self.rows)

    def plan(self, epoch: int) -> list[NDArray[np.int64]]:
        if epoch not in self._plans:
            generator = np.random.Generator(np.random.Philox(key=[self.seed, epoch]))
            shuffled = self.rows[generator.permutation(len(self.rows))]
            self._plans.clear()
            self._plans[epoch] = np.array_split(shuffled, -(-len(shuffled) // max(1, self.config.tokens // 16)))
        return self._plans[epoch]

    def _collate(self, rows: NDArray[np.int64], epoch: int, index: int) -> Batch:
        return collate_pictures(self.store, rows)


@dataclass(frozen=True)
class CaptionValidator:
    store: PictureStore
    rows: NDArray[np.int64]
    texts: Sequence[tuple[str, str]]
    """(name of the picture, caption) of the first rows, which are captioned; the loss takes all"""
    tokenizers: TokenizerPair
    config: ValidConfig
    decode: DecodeConfig

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.store.fingerprint, self.rows)

    @property
    def size(self) -> int:
        return len(self.rows)

    def __call__(self, model: Model, device: torch.device, check_stop: Callable[[], None]) -> Validation:
        model.eval()
        loss = mean_loss(model, self._batches(), device, check_stop)
        decode = self.decode.model_copy(update={"beam": self.config.beam, "n_best": 1, "sampling": None})
        captioner = Captioner(model, self.tokenizers, decode, device)
        answers: list[str] = []
        for batch in self._batches(len(self.texts)):
            answers += [caption.text for caption in captioner.of_batch(batch)]
            check_stop()
        names, references = [name for name, _ in self.texts], [caption for _, caption in self.texts]
        return judged(loss, names, references, answers, self.config)

    def _batches(self, n: int | None = None) -> Iterator[Batch]:
        rows = self.rows[:n]
        for i in range(0, len(rows), 128):
            yield collate_pictures(self.store, rows[i : i + 128])
