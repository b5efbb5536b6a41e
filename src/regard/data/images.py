"""Pictures with captions: a folder of image files and a TSV, to batches."""

import hashlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batch import Batch, Ragged, collate_targets
from regard.data.batching import RowBatches
from regard.data.corpus import read_lines
from regard.errors import UserError
from regard.files import disk_error, new_file
from regard.text.clean import clean

if TYPE_CHECKING:
    from PIL.Image import Image

ImageArray = NDArray[np.uint8]
# Named one by one: among the others that Pillow knows are some that start a program (EPS).
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")


@dataclass(frozen=True)
class CaptionFile:
    """Where pictures with captions are: a TSV, and the folder (default: the TSV's) of the files it names."""

    tsv: Path
    folder: Path | None = None

    def pairs(self) -> list[tuple[Path, str]]:
        return read_captions(self.tsv, self.folder)

    def store(
        self, encode: Callable[[list[str]], Sequence[Sequence[int]]], size: int, path: Path | None = None
    ) -> "ImageStore":
        """All captions as ids, and every picture once, however many captions it has."""
        pairs = self.pairs()
        numbers = {file: i for i, file in enumerate(dict.fromkeys(file for file, _ in pairs))}
        captions = encode([caption for _, caption in pairs])
        which = [numbers[file] for file, _ in pairs]
        return ImageStore.of((load_image(file, size) for file in numbers), captions, which, path)


def read_captions(tsv: Path, folder: Path | None = None) -> list[tuple[Path, str]]:
    """(picture, caption) of every line `name.png<TAB>caption`; blank lines are passed over."""
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
            raise UserError(f"{tsv}, line {number:,}: expected a picture's name, one tab and its caption")
        name, caption = columns[0].strip(), clean(columns[1])
        if not caption:
            raise UserError(f"{tsv}, line {number:,}: no caption for '{name}'; write one or take the line out")
        if not (folder / name).is_file():
            raise UserError(f"{tsv}, line {number:,}: no picture '{name}' in {folder}")
        pairs.append((folder / name, caption))
    if not pairs:
        raise UserError(f"{tsv}: no captions in it; write lines of a picture's name, a tab and its caption")
    return pairs


def load_image(path: Path, size: int) -> ImageArray:
    """uint8 [size, size, 3]: the middle of the picture, scaled so that its shorter side fits; white shows through."""
    image, ops = _pillow()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", image.DecompressionBombWarning)
            with image.open(path, formats=FORMATS) as opened:
                upright = ops.exif_transpose(opened)
                fitted = ops.fit(_rgb(upright, image), (size, size), image.Resampling.BICUBIC)
    except (image.DecompressionBombError, image.DecompressionBombWarning, MemoryError):
        limit = (image.MAX_IMAGE_PIXELS or 0) // 10**6
        raise UserError(f"{path}: over {limit} million pixels; make the picture smaller") from None
    except Exception as error:  # a broken file can make Pillow raise nearly anything
        if isinstance(error, OSError) and error.strerror:
            raise UserError(f"{path}: cannot be read ({error.strerror})") from None
        raise UserError(f"{path}: not a whole picture of a known kind ({', '.join(FORMATS)})") from None
    return np.array(fitted, dtype=np.uint8)


def save_image(array: ImageArray, path: Path) -> None:
    """uint8 [height, width, 3] → a PNG file"""
    image, _ = _pillow()
    try:
        image.fromarray(array).save(path, format="PNG")
    except OSError as error:
        raise disk_error(error, path) from error


def _pillow() -> tuple[Any, Any]:
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise UserError("pictures need a package: pip install 'regard[image]'") from None
    return Image, ImageOps


def _rgb(picture: "Image", image: Any) -> "Image":
    if picture.mode.startswith("I;16"):  # Pillow would cut its values off at 255
        return image.fromarray((np.asarray(picture) >> 8).astype(np.uint8)).convert("RGB")
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        return image.alpha_composite(image.new("RGBA", picture.size, "white"), picture).convert("RGB")
    return picture.convert("RGB")


@dataclass(frozen=True, eq=False)
class ImageStore:
    """Captions as ids without specials, and the picture of each; a row is a caption."""

    array: ImageArray
    """[N, size, size, 3], in memory or mapped from a file"""
    which: NDArray[np.int64]
    """[rows]: the picture of each caption"""
    ids: NDArray[np.int64]
    ends: NDArray[np.int64]
    """[rows + 1]: caption i is ids[ends[i]:ends[i + 1]]"""
    fingerprint: str
    """SHA-256 of pictures and captions"""

    @classmethod
    def of(
        cls,
        pictures: Iterable[ImageArray],
        captions: Sequence[Sequence[int]],
        which: Sequence[int] | None = None,
        path: Path | None = None,
    ) -> "ImageStore":
        """Pictures [size, size, 3], kept in a new file at `path` if given; caption i is of picture which[i] (or i)."""
        pictures = _checked(pictures)
        array = np.stack(list(pictures)) if path is None else _map_file(pictures, path)
        rows = np.arange(len(captions)) if which is None else np.asarray(which, dtype=np.int64)
        if not len(captions) == len(rows) > 0 or rows.min() < 0 or rows.max() >= len(array):
            raise UserError(f"{len(captions):,} captions do not fit {len(array):,} pictures; give each caption its one")
        ragged = Ragged.of(captions)
        ends = np.concatenate([[0], np.cumsum(ragged.lengths)])
        digest = hashlib.sha256(f"{array.shape}".encode())
        for part in (array, rows.astype("<i8"), ragged.ids.astype("<i8"), ends.astype("<i8")):
            digest.update(np.ascontiguousarray(part).data)
        return cls(array, rows, ragged.ids, ends, digest.hexdigest())

    def __len__(self) -> int:
        return len(self.which)

    def pictures(self, rows: NDArray[np.int64]) -> Tensor:
        """float32 [B, 3, size, size] from −1 to 1"""
        return scale_pixels(self.array[self.which[rows]])

    def captions(self, rows: NDArray[np.int64]) -> Ragged:
        parts = [self.ids[start:end] for start, end in zip(self.ends[rows], self.ends[rows + 1], strict=True)]
        return Ragged(np.concatenate(parts), self.ends[rows + 1] - self.ends[rows])


def scale_pixels(pictures: ImageArray) -> Tensor:
    """uint8 [B, size, size, 3] → float32 [B, 3, size, size] from −1 to 1"""
    chosen = torch.from_numpy(pictures)
    return chosen.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format) / 127.5 - 1


def collate_images(store: ImageStore, rows: NDArray[np.int64]) -> Batch:
    """src float32 [B, 3, size, size]; tgt_in and tgt_out [B, T] as in `collate`"""
    return Batch.of(store.pictures(rows), collate_targets(store.captions(rows)))


@dataclass(frozen=True)
class ImageBatches(RowBatches):
    """Captions in random order; a batch holds as many as its budget has tokens for, 16 a caption."""

    store: ImageStore

    def _plan(self, epoch: int) -> list[NDArray[np.int64]]:
        generator = np.random.Generator(np.random.Philox(key=[self.seed, epoch]))
        shuffled = self.rows[generator.permutation(len(self.rows))]
        return np.array_split(shuffled, -(-len(shuffled) // max(1, self.config.tokens // 16)))

    def _collate(self, rows: NDArray[np.int64], epoch: int, index: int) -> Batch:
        return collate_images(self.store, rows)


def _checked(pictures: Iterable[ImageArray]) -> Iterator[ImageArray]:
    """The same pictures, at least one, all of one size."""
    first: ImageArray | None = None
    for n, picture in enumerate(pictures, start=1):
        first = picture if first is None else first
        if picture.dtype != np.uint8 or picture.shape != first.shape or picture.shape[2:] != (3,):
            shape = f"{picture.dtype} {list(picture.shape)}"
            raise UserError(f"picture {n:,} is {shape}; give uint8 [size, size, 3], all of one size")
        yield picture
    if first is None:
        raise UserError("no pictures to store; give at least one")


def _map_file(pictures: Iterable[ImageArray], path: Path) -> ImageArray:
    """The pictures one behind the other in a file, of which memory holds only what is looked at."""
    n, shape = 0, (0, 0, 0)
    with new_file(path) as file:
        for picture in pictures:
            file.write(picture.tobytes())
            n, shape = n + 1, picture.shape
    return np.memmap(path, dtype=np.uint8, mode="r", shape=(n, *shape))
