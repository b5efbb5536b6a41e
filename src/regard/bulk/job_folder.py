"""The folder of a long job: what the job depends on is written there first, and a job of other inputs is refused."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.bundle_files import CARD, read_files
from regard.data.arrow_tables import data_files
from regard.data.data_file import fingerprint_files
from regard.errors import UserError
from regard.files import remove_leftovers
from regard.lock import lock_folder
from regard.manifest import MANIFEST, Checksum, Manifest
from regard.paths import check_input_file

_MAX_SHOWN = 60  # characters of a value that a message repeats


@contextmanager
def job_folder(folder: Path, facts: Mapping[str, Any]) -> Iterator[None]:
    """Use a folder for a job while the block runs: a new or empty one, or that of the same job, which then continues.

    `facts` are all inputs and options that influence the result, by the names that an error tells the user.
    """
    with lock_folder(folder):
        remove_leftovers(folder, exclusive=True)
        others = (path for path in folder.iterdir() if not path.name.startswith(".") and path.name != MANIFEST)
        other = next(others, None)
        if other is None:  # nothing was done, perhaps because one of the options was a mistake
            Manifest({}, facts).write(folder)
        elif (folder / MANIFEST).exists():
            _check_same(folder, Manifest.read(folder).facts, json.loads(json.dumps(facts)))
        else:
            raise UserError(f"{folder}: holds {other.name}, which is not of such a job; choose another folder")
        yield


def step_folder(folder: Path) -> Path:
    """Make a folder inside that of a job, or free it of what killed processes have left there."""
    folder.mkdir(exist_ok=True)
    remove_leftovers(folder, exclusive=True)
    return folder


def _check_same(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    if not before.keys() & now.keys():
        raise UserError(f"{folder}: is a model directory or of another kind of job; choose another folder")
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name):
            raise UserError(
                f"{folder}: was begun {_change(name, before.get(name), now.get(name))}; give the same to continue "
                "it, delete this folder to start again, or choose another folder"
            )


def _change(name: str, before: object, now: object) -> str:
    """Return what differs, as the end of a sentence; long values such as checksums are not shown."""
    shown = [json.dumps(value) for value in (before, now)]
    if before is None:
        return f"without {name}"
    if now is None:
        return f"with {name}" + (f" {shown[0]}" if len(shown[0]) <= _MAX_SHOWN else "")
    return f"with {name} {shown[0]}, not {shown[1]}" if max(map(len, shown)) <= _MAX_SHOWN else f"with another {name}"


def files_fact(paths: Sequence[Path]) -> str:
    """Return a hash of data files; refuse pipes, which cannot be read again when the job continues."""
    files = [file for path in paths for file in data_files(path)]
    for file in files:
        check_input_file(file, read_once=False)
    return fingerprint_files(files, "")


def model_fact(folder: Path) -> str:
    """Return a hash of the files of a model directory, without the model card."""
    digest = hashlib.sha256()
    for name, path in sorted(read_files(folder).items()):
        if name not in (CARD, MANIFEST):
            digest.update(f"{name} {Checksum.of_file(path).sha256}\n".encode())
    return digest.hexdigest()
