"""Tensors of other programs in safetensors and Marian's .npz files; shapes are known before anything is read."""

import lzma
import math
import re
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from regard.convert.imports.model_folder import JsonObject, ModelFolder
from regard.errors import UserError

SAFETENSORS = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_PICKLES = ("pytorch_model*.bin", "*.pt", "*.pth", "*.ckpt")
_SHARD = re.compile(r"[\w.-]{1,200}\.safetensors")

_MAX_RATIO = 4  # of the sizes of a .npz file's members and of the file; trained weights can hardly be compressed
_MAX_MEMBERS = 100_000
_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
_UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, tokenize.TokenError, OSError, EOFError, MemoryError),
    *(ValueError, TypeError, LookupError, RuntimeError, SyntaxError, AttributeError, struct.error),
)
"""What zipfile and numpy raise when a file is damaged"""


class TensorFiles(Protocol):
    """Named tensors."""

    where: str
    """What they are called in errors"""
    shapes: dict[str, tuple[int, ...]]

    def read(self, name: str) -> Tensor:
        """Return a tensor as it is stored."""
        ...


class Safetensors:
    """The tensors of model.safetensors, or of the files that model.safetensors.index.json names."""

    def __init__(self, folder: ModelFolder) -> None:
        self._files: dict[str, Path] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        names = [SAFETENSORS] if folder.has(SAFETENSORS) else _shards(folder)
        self.where = str(folder.path / (names[0] if len(names) == 1 else _INDEX))
        for path in map(folder.file, names):
            with _opened(path) as file:
                for name in file.keys():  # noqa: SIM118
                    self.shapes[name] = tuple(file.get_slice(name).get_shape())
                    self._files[name] = path

    def read(self, name: str) -> Tensor:
        with _opened(self._files[name]) as file:
            return file.get_tensor(name)


class Npz:
    """The arrays of a .npz file. Arrays of objects, which would be unpickled, are refused."""

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        try:
            self._zip = zipfile.ZipFile(path)
        except _UNREADABLE as error:
            raise UserError(f"{path}: not a complete .npz file ({error!s:.100})") from None
        members = self._zip.infolist()
        if len(members) > _MAX_MEMBERS:
            raise UserError(f"{path}: has {len(members):,} members, which no model has")
        if sum(member.file_size for member in members) > _MAX_RATIO * path.stat().st_size + 2**20:
            raise UserError(f"{path}: unpacks to far more than trained weights do; the file is damaged or hostile")
        self._members = {member.filename.removesuffix(".npy"): member for member in members}
        self.shapes: dict[str, tuple[int, ...]] = {}
        for name in self._members:
            with self._open(name) as file:
                self.shapes[name] = self._header(name, file)[0]

    def read(self, name: str) -> Tensor:
        return torch.from_numpy(self.array(name))

    def array(self, name: str) -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
        """Return an array as it is stored."""
        with self._open(name) as file:
            shape, fortran, dtype = self._header(name, file)
            array = np.frombuffer(bytearray(file.read(math.prod(shape) * dtype.itemsize)), dtype=dtype)
            array = array.astype(dtype.newbyteorder("="), copy=False)
            return array.reshape(shape[::-1]).T.copy() if fortran else array.reshape(shape)

    @contextmanager
    def _open(self, name: str) -> Iterator[IO[bytes]]:
        try:
            with self._zip.open(self._members[name]) as file:
                yield file
        except UserError:
            raise
        except _UNREADABLE as error:
            raise UserError(f"{self.where}: array {name!r:.80} cannot be read ({error!s:.100})") from None

    def _header(self, name: str, file: IO[bytes]) -> tuple[tuple[int, ...], bool, "np.dtype[np.float32]"]:
        """Read the header of an array → shape, whether columns come first, and the type of the numbers"""
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"version {version} of the format")
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(file)
        if dtype.hasobject or dtype.kind not in "fiu" or dtype.names or dtype.itemsize > 8:
            raise ValueError(f"its type {dtype} is not that of numbers")
        if min(shape, default=1) < 1 or math.prod(shape) * dtype.itemsize > self._members[name].file_size:
            raise ValueError("its shape is not that of its content")
        return shape, fortran, dtype


class WeightReader:
    """Reads tensors of known shapes. A dry reader returns tensors without content, to check a whole model first."""

    def __init__(self, files: TensorFiles, dry: bool = False) -> None:
        self.files = files
        self.dry = dry
        self.used: set[str] = set()

    def has(self, name: str) -> bool:
        return name in self.files.shapes

    def tensor(self, name: str, *shape: int) -> Tensor:
        """Return a tensor in float32, after a check of its shape."""
        if name not in self.files.shapes:
            raise UserError(f"{self.files.where}: tensor '{name}' is missing")
        if (stored := self.files.shapes[name]) != shape:
            raise UserError(f"{self.files.where}: tensor '{name}' has shape {stored}, but the config says {shape}")
        self.used.add(name)
        if self.dry:
            return torch.empty(shape, device="meta")
        tensor = self.files.read(name)
        if tensor.dtype not in _FLOATS:
            raise UserError(
                f"{self.files.where}: tensor '{name}' has type {tensor.dtype}, which is not that of weights"
            )
        return tensor.float()

    def zeros(self, *shape: int) -> Tensor:
        """Return a tensor of zeros, in the place of one that the files do not have."""
        return torch.zeros(shape, device="meta" if self.dry else None)

    def linear(self, name: str, n_out: int, n_in: int, bias: bool = True) -> dict[str, Tensor]:
        """Return weight and bias; a bias that the file does not have is zero."""
        parts = {"weight": self.tensor(f"{name}.weight", n_out, n_in)}
        if bias:
            key = f"{name}.bias"
            parts["bias"] = self.tensor(key, n_out) if self.has(key) else self.zeros(n_out)
        return parts

    def norm(self, name: str, width: int, bias: bool = True) -> dict[str, Tensor]:
        return {part: self.tensor(f"{name}.{part}", width) for part in (("weight", "bias") if bias else ("weight",))}

    def check_all_used(self, ignored: str) -> None:
        """Raise a UserError if there are other tensors than those read and those whose names match `ignored`."""
        for name in sorted(self.files.shapes.keys() - self.used):
            if not re.fullmatch(ignored, name):
                raise UserError(f"{self.files.where}: tensor {name!r:.80} has no place in this kind of model")


def vocab_size(config: JsonObject, files: TensorFiles, key: str = "vocab_size", default: int | None = None) -> int:
    """Return a number of tokens in config.json; refuse one that no table of embeddings has before it takes memory."""
    size = config.number(key, default)
    if not any(shape[:1] == (size,) and math.prod(shape) >= size > 0 for shape in files.shapes.values()):
        raise UserError(f"{config.where}: '{key}' is {size!s:.30}, but {files.where} has no tensor with that many rows")
    return size


def _shards(folder: ModelFolder) -> list[str]:
    """Return the names of the files of a model in several parts."""
    if not folder.has(_INDEX):
        if pickles := folder.names(*_PICKLES):
            raise UserError(
                f"{folder.path / pickles[0]}: a pickle, which can run any program when it is read; load it in "
                "transformers and save it again with save_pretrained, which writes model.safetensors"
            )
        raise UserError(f"{folder}: there is no {SAFETENSORS}, no {_INDEX} and no .npz file")
    index = folder.json(_INDEX)
    names = sorted({str(name) for name in index.get("weight_map", dict).values()})
    for name in names:
        if not _SHARD.fullmatch(name):
            raise UserError(f"{index.where}: {name!r:.80} is not the name of a safetensors file in this folder")
    if not names:
        raise UserError(f"{index.where}: names no files")
    return names


@contextmanager
def _opened(path: Path) -> "Iterator[safe_open]":
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except SafetensorError as error:
        raise UserError(f"{path}: not a complete safetensors file ({error!s:.100})") from None
