"""The files of a model directory: all of them are replaced at once, and verified before they are used.

New files are first written to the folder `.new`, which is complete as soon as it has that name; then each is moved to
its place. After a crash in between, readers take the files that are still in `.new` from there, and the next save
moves them.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from regard.errors import UserError
from regard.files import delete_folder, new_folder, remove_leftovers, sync_folder, write_atomically
from regard.manifest import MANIFEST, Checksum, DamagedFile, Manifest, read_regular

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
CARD = "README.md"
TOKENIZER = "tokenizer/"
WORDS = "words.tsv"

_NEW = ".new"
_ADVICE = "copy the model directory again or, if you changed it yourself, run `regard verify {} --accept`"


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Replace the files of a model directory, and write their manifest. A crash leaves the old or the new ones."""
    _commit(folder, files, Manifest({name: Checksum.of(content) for name, content in files.items()}))


def update_file(folder: Path, name: str, content: bytes) -> None:
    """Replace one file of a model directory, and its entry in the manifest if there is one."""
    manifest = _read_manifest(folder)
    if manifest is None:
        write_atomically(folder / name, content)
    else:
        _commit(folder, {name: content}, Manifest({**manifest.files, name: Checksum.of(content)}))


def read_files(folder: Path) -> dict[str, Path]:
    """Return the paths of a model directory's files by name, after a check of their SHA-256.

    A directory without a manifest, as older versions wrote them, is not checked, nor is the model card, which people
    may edit.
    """
    for last_try in (False, True):
        manifest = _read_manifest(folder)
        if manifest is None:
            return _files_without_manifest(folder)
        paths = {name: _present_path(folder, name) for name in (*manifest.files, MANIFEST)}
        try:
            for name in sorted(manifest.files.keys() - {CARD}):
                manifest.check_file(name, paths[name])
            return paths
        except DamagedFile as error:
            if last_try:  # at the first try, another process may just have replaced the files
                raise DamagedFile(f"{error}; {_ADVICE.format(folder)}") from None
    raise AssertionError


def verify_files(folder: Path) -> list[str]:
    """Return what is wrong with the files of a model directory; nothing if all is well."""
    try:
        manifest = _read_manifest(folder)
    except UserError as error:
        return [str(error)]
    if manifest is None:
        return [
            f"{folder / MANIFEST}: missing, so nothing can be verified; `regard verify {folder} --accept` writes one"
        ]
    problems = []
    for name in sorted(manifest.files.keys() - {CARD}):
        try:
            manifest.check_file(name, _present_path(folder, name))
        except DamagedFile as error:
            problems.append(str(error))
    return problems


def card_was_edited(folder: Path) -> bool:
    """Return whether the model card is another than the one that was written."""
    manifest = _read_manifest(folder)
    if manifest is None or CARD not in manifest.files:
        return False
    try:
        manifest.check_file(CARD, _present_path(folder, CARD))
    except DamagedFile:
        return True
    return False


def accept_files(folder: Path) -> None:
    """Write a manifest of the files as they are now."""
    _move_new_files(folder)
    Manifest.of_folder(folder, _files_without_manifest(folder)).write(folder)


def _commit(folder: Path, files: Mapping[str, bytes], manifest: Manifest) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    _move_new_files(folder)
    remove_leftovers(folder)
    with new_folder(folder / _NEW) as new:
        for name, content in {**files, MANIFEST: manifest.to_bytes()}.items():
            path = new / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
    _move_new_files(folder)


def _read_manifest(folder: Path) -> Manifest | None:
    path = _present_path(folder, MANIFEST)
    if not path.exists():
        return None
    try:
        return Manifest.from_bytes(read_regular(path), path)
    except DamagedFile as error:
        raise DamagedFile(f"{error}; {_ADVICE.format(folder)}") from None


def _files_without_manifest(folder: Path) -> dict[str, Path]:
    tokenizers = [path for suffix in ("spm", "json") for path in sorted((folder / TOKENIZER).glob(f"*.{suffix}"))]
    names = [CONFIG, WEIGHTS, CARD, WORDS, *(f"{TOKENIZER}{path.name}" for path in tokenizers)]
    return {name: folder / name for name in names if (folder / name).exists()}


def _present_path(folder: Path, name: str) -> Path:
    new = folder / _NEW / name
    return new if new.exists() else folder / name


def _move_new_files(folder: Path) -> None:
    """Finish a save: move the new files to their places, the manifest last."""
    new = folder / _NEW
    if not new.is_dir():
        return
    files = [path for path in new.rglob("*") if path.is_file()]
    for path in sorted(files, key=lambda path: path.name == MANIFEST):
        target = folder / path.relative_to(new)
        target.parent.mkdir(exist_ok=True)
        with suppress(FileNotFoundError):  # moved by another process
            path.replace(target)
    sync_folder(folder)
    delete_folder(new)
