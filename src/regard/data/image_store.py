"""Images with captions: from a TSV and image files to training batches."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batch import Batch, collate_targets
from regard.data.batch_order import Place, RowBatches
from regard.data.data_file import read_lines
from regard.data.images import ImageArray, load_image, scale_pixels
from regard.errors import UserError
from regard.files import new_file
from regard.text.clean import clean
from regard.text.ragged import Ragged

_TOKENS_PER_CAPTION = 16

CaptionedImage = tuple[Path, str]
"""(image file, caption)"""


def read_captions(tsv: Path, folder: Path | None = None) -> list[CaptionedImage]:
    """Read lines `name.png<TAB>caption` and skip blank ones; images are in `folder`, by default that of the TSV."""
    folder = tsv.parent if folder is None else folder
    pairs = []
    for number, line in enumerate(read_lines(tsv), start=1):
        try:
            columns = line.decode("utf-8").removeprefix("\ufeff").split("\t")
        except UnicodeDecodeError:
            raise UserError(f"{tsv}, line {number:,}: not UTF-8; save the file as UTF-8") from None
        if not any(column.strip() for column in columns):
            continue
        if len(columns) != 2:
            raise UserError(f"{tsv}, line {number:,}: expected an image file name, one tab and its caption")
        name, caption = columns[0].strip(), clean(columns[1])
        if not caption:
            raise UserError(f"{tsv}, line {number:,}: '{name}' has no caption; write one or delete the line")
        if not (folder / name).is_file():
            raise UserError(f"{tsv}, line {number:,}: no image '{name}' in {folder}")
        pairs.append((folder / name, caption))
    if not pairs:
        raise UserError(f"{tsv}: contains no captions; write lines of an image file name, a tab and its caption")
    return pairs


@dataclass(frozen=True, eq=False)
class ImageStore:
    """Captions as ids without special tokens, and their images. A row is a caption."""

    array: ImageArray
    """[N, size, size, 3], in memory or memory-mapped"""
    which: NDArray[np.int64]
    """[rows]: index of each caption's image"""
    ids: NDArray[np.int64]
    ends: NDArray[np.int64]
    """[rows + 1]: caption i is ids[ends[i]:ends[i + 1]]"""
    fingerprint: str
    """SHA-256 of images and captions"""

    @classmethod
    def of(
        cls,
        images: Iterable[ImageArray],
        captions: Sequence[Sequence[int]],
        which: Sequence[int] | None = None,
        path: Path | None = None,
    ) -> "ImageStore":
        """Store images [size, size, 3] in memory, or in a new file at `path`; caption i belongs to image which[i].

        Without `which`, caption i belongs to image i.
        """
        images = _check_images(images)
        array = np.stack(list(images)) if path is None else _write_and_map(images, path)
        rows = np.arange(len(captions)) if which is None else np.asarray(which, dtype=np.int64)
        if not len(captions) == len(rows) > 0 or rows.min() < 0 or rows.max() >= len(array):
            raise UserError(f"{len(captions):,} captions do not fit {len(array):,} images; give each caption one image")
        ragged = Ragged.of(captions)
        ends = np.concatenate([[0], np.cumsum(ragged.lengths)])
        digest = hashlib.sha256(f"{array.shape}".encode())
        for part in (array, rows.astype("<i8"), ragged.ids.astype("<i8"), ends.astype("<i8")):
            digest.update(np.ascontiguousarray(part).data)
        return cls(array, rows, ragged.ids, ends, digest.hexdigest())

    @classmethod
    def load(
        cls,
        pairs: Sequence[CaptionedImage],
        encode: Callable[[list[str]], Sequence[Sequence[int]]],
        size: int,
        path: Path | None = None,
    ) -> "ImageStore":
        """Load each image once, however many captions it has, and encode all captions."""
        numbers = {file: i for i, file in enumerate(dict.fromkeys(file for file, _ in pairs))}
        captions = encode([caption for _, caption in pairs])
        which = [numbers[file] for file, _ in pairs]
        return cls.of((load_image(file, size) for file in numbers), captions, which, path)

    def __len__(self) -> int:
        return len(self.which)

    def images(self, rows: NDArray[np.int64]) -> Tensor:
        """Return the images of some captions as float32 [B, 3, size, size] from −1 to 1."""
        return scale_pixels(self.array[self.which[rows]])

    def captions(self, rows: NDArray[np.int64]) -> Ragged:
        parts = [self.ids[start:end] for start, end in zip(self.ends[rows], self.ends[rows + 1], strict=True)]
        return Ragged(np.concatenate(parts), self.ends[rows + 1] - self.ends[rows])


def collate_images(store: ImageStore, rows: NDArray[np.int64]) -> Batch:
    """Make a batch: src float32 [B, 3, size, size], tgt_in and tgt_out [B, T] as in `collate`."""
    return Batch.of(store.images(rows), collate_targets(store.captions(rows)))


@dataclass(frozen=True)
class ImageBatches(RowBatches):
    """Captions in random order; for the batch size a caption counts as 16 tokens."""

    store: ImageStore

    def _plan(self, epoch: int, window: int) -> list[NDArray[np.int64]]:
        generator = np.random.Generator(np.random.Philox(key=[self.seed, epoch]))
        shuffled = self.rows[generator.permutation(len(self.rows))]
        return np.array_split(shuffled, -(-len(shuffled) // max(1, self.config.tokens // _TOKENS_PER_CAPTION)))

    def _collate(self, rows: NDArray[np.int64], place: Place) -> Batch:
        return collate_images(self.store, rows)


def _check_images(images: Iterable[ImageArray]) -> Iterator[ImageArray]:
    """Yield the images; raise if there is none or if they differ in size."""
    first: ImageArray | None = None
    for n, image in enumerate(images, start=1):
        first = image if first is None else first
        if image.dtype != np.uint8 or image.shape != first.shape or image.shape[2:] != (3,):
            shape = f"{image.dtype} {list(image.shape)}"
            raise UserError(f"image {n:,} is {shape}; give uint8 [size, size, 3], all of one size")
        yield image
    if first is None:
        raise UserError("no images to store; give at least one")


def _write_and_map(images: Iterable[ImageArray], path: Path) -> ImageArray:
    """Write the images to a file and map it into memory."""
    n, shape = 0, (0, 0, 0)
    with new_file(path) as file:
        for image in images:
            file.write(image.tobytes())
            n, shape = n + 1, image.shape
    return np.memmap(path, dtype=np.uint8, mode="r", shape=(n, *shape))
