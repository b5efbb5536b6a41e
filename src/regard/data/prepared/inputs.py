"""The files that a user names for a preparation: paths, patterns and URLs → corpora."""

import glob
from collections.abc import Sequence
from pathlib import Path

from regard.data.pair_readers import is_pair_file
from regard.data.parallel_corpus import Corpus
from regard.errors import UserError
from regard.paths import remote_url


def find_corpora(names: Sequence[str], languages: tuple[str, str] | None) -> list[Corpus]:
    """Return the corpora that names stand for: any number of files of pairs, or two line-aligned files.

    A name may be a pattern such as `part-*.en.gz`. Of two patterns of line-aligned files, the first file of one belongs
    to the first file of the other, and so on, by name.
    """
    groups = [_expand(name) for name in names]
    files = [path for group in groups for path in group]
    if all(map(is_pair_file, files)):
        return [Corpus((path,), languages) for path in files]
    if len(groups) != 2:
        first = next(path for path in files if not is_pair_file(path))
        raise UserError(
            f"{first}: give two line-aligned files, or two patterns of them in quotes such as 'part-*.en' 'part-*.de', "
            "or any number of files of pairs such as .tsv"
        )
    if len(groups[0]) != len(groups[1]):
        raise UserError(
            f"{names[0]} stands for {len(groups[0]):,} files, but {names[1]} for {len(groups[1]):,}; each file of one "
            "must have its translation in the other"
        )
    return [Corpus(pair, languages) for pair in zip(*groups, strict=True)]


def _expand(name: str) -> list[Path]:
    """Return the files that a name stands for, in the order of their names."""
    path = Path(name)
    if not glob.has_magic(name) or path.exists():
        return [path]
    if url := remote_url(path):
        import fsspec

        try:
            system, pattern = fsspec.core.url_to_fs(url)
            found = [system.unstrip_protocol(match) for match in sorted(system.glob(pattern))]
        except (ImportError, ValueError, OSError) as error:
            raise UserError(f"{url}: cannot be read ({str(error).partition(chr(10))[0]})") from None
    else:
        found = sorted(glob.glob(name, recursive=True))  # noqa: PTH207
    if not found:
        raise UserError(f"{name}: no file has such a name")
    return list(map(Path, found))
