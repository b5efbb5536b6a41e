"""Pairs in Parquet files and in folders of the Hugging Face library `datasets`, read batch by batch with pyarrow."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from regard.data.data_file import BadLine, DataFile
from regard.errors import UserError
from regard.paths import check_input_file

TABLE_SUFFIXES = (".parquet", ".arrow")
_ROWS = 4_096  # read at a time
_STRUCT = "translation"
"""The column of `datasets` that holds {"en": …, "fr": …}"""
_FILE_START = b"ARROW1"  # of an Arrow file that is no stream
_SHARD = re.compile(r"(.*)-\d{5}-of-\d{5}")


def data_files(path: Path) -> list[Path]:
    """Return the files of a corpus: the path itself or, of a folder, its Parquet files or those of `save_to_disk`."""
    if not path.is_dir():
        check_input_file(path)
        return [path]
    if (path / "dataset_dict.json").is_file() or _splits(path):
        names = _splits(path) or sorted(folder.name for folder in path.iterdir() if folder.is_dir())
        what = "one of its folders" if not _splits(path) else "a file, or a folder with the files of one"
        raise UserError(f"{path}: holds several splits ({', '.join(names)}); name {what}")
    files = _saved_files(path) or sorted(path.glob("*.parquet"))
    if not files:
        raise UserError(f"{path}: is a folder without .parquet files, and not one of datasets' save_to_disk")
    for file in files:
        check_input_file(file)
    return files


def _splits(folder: Path) -> list[str]:
    """Return the splits of Parquet files such as train-00000-of-00002.parquet, if there are several."""
    names = {match[1] for path in folder.glob("*.parquet") if (match := _SHARD.fullmatch(path.stem))}
    return sorted(names) if len(names) > 1 else []


def _saved_files(folder: Path) -> list[Path]:
    """Return the files of a folder that `save_to_disk` wrote, in their order; none if it is another folder."""
    if not (folder / "state.json").is_file():
        return []
    try:
        state = json.loads((folder / "state.json").read_bytes())
        return [folder / Path(str(entry["filename"])).name for entry in state["_data_files"]]
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"{folder / 'state.json'}: damaged; save the dataset again") from None


def read_arrow_pairs(file: DataFile, langs: tuple[str, str] | None) -> Iterator[tuple[bytes, bytes] | BadLine]:
    """Yield the pairs of a Parquet or Arrow file: two columns of text, or a column `translation` of two languages."""
    with file.on_disk() as path, _batches(path) as (schema, batches):
        columns = _choose_columns(schema, langs, file.path)
        for batch in batches:
            sides = [_texts(batch, column) for column in columns]
            for source, target in zip(*sides, strict=True):
                yield BadLine("empty side") if source is None or target is None else (source, target)


def table_languages(path: Path) -> tuple[str, str] | None:
    """Return the names of the two sides of a Parquet or Arrow file; None if it has none or cannot be read."""
    with suppress(UserError), _batches(path) as (schema, _):
        first, second, *_ = [*_text_columns(schema), None, None]
        return (first[-1], second[-1]) if first and second else None
    return None


@contextmanager
def _batches(path: Path) -> Iterator[tuple[Any, Iterator[Any]]]:
    """Open a file: its schema and its batches. Errors while reading name the file."""
    try:
        import pyarrow
        from pyarrow import ipc, parquet
    except ImportError:
        raise UserError(
            f"{path}: {path.suffix} files need a package: pip install 'regard[data]'; or write the pairs as .tsv"
        ) from None
    try:
        if path.suffix.lower() == ".parquet":
            with parquet.ParquetFile(path) as table:
                yield table.schema_arrow, table.iter_batches(_ROWS)
        else:
            with pyarrow.memory_map(str(path)) as content:
                is_stream = content.read(len(_FILE_START)) != _FILE_START
                content.seek(0)
                table = ipc.open_stream(content) if is_stream else ipc.open_file(content)
                yield table.schema, iter(table) if is_stream else map(table.get_batch, range(table.num_record_batches))
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(f"{path}: not a complete {path.suffix} file ({reason}); copy it again") from None


Column = tuple[str, ...]
"""The name of a column, or of a column and of a field in it"""


def _text_columns(schema: Any) -> list[Column]:
    """Return the columns of text, or the fields of the column `translation`."""
    from pyarrow import types

    def is_text(kind: Any) -> bool:
        return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)

    index = schema.get_field_index(_STRUCT)
    if index >= 0 and types.is_struct(schema.types[index]):
        return [(_STRUCT, field.name) for field in schema.types[index] if is_text(field.type)]
    return [(name,) for name, kind in zip(schema.names, schema.types, strict=True) if is_text(kind)]


def _choose_columns(schema: Any, langs: tuple[str, str] | None, path: Path) -> tuple[Column, Column]:
    """Return the columns of the source and of the target: those named by `langs`, or the only two of text."""
    columns = _text_columns(schema)
    by_name = {column[-1]: column for column in columns}
    if langs and all(language in by_name for language in langs):
        return by_name[langs[0]], by_name[langs[1]]
    if len(columns) == 2:
        return columns[0], columns[1]
    if len(columns) > 2 and not langs:
        raise UserError(
            f"{path}: has several columns of text ({', '.join(by_name)}); name two, as in --languages en-fr"
        )
    names = ", ".join(f"{name} ({kind})" for name, kind in zip(schema.names, schema.types, strict=True))
    wanted = f"no columns of text {' and '.join(langs)}" if langs else "no two columns of text"
    raise UserError(f"{path}: {wanted}; it has {names or 'no columns'}")


def _texts(batch: Any, column: Column) -> list[bytes | None]:
    """Return the texts of a column as UTF-8."""
    from pyarrow import compute, large_binary

    values = batch.column(column[0])
    if len(column) == 2:
        values = compute.struct_field(values, column[1])
    return list(values.cast(large_binary()).to_pylist())
