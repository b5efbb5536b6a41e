"""Checks the files of a run or of a model directory against their checksums."""

from dataclasses import dataclass
from pathlib import Path

from regard.bundle_files import CONFIG, WEIGHTS, accept_files, card_was_edited, verify_files
from regard.data.prepared.corpus import PreparedCorpus, is_prepared
from regard.errors import UserError
from regard.lock import lock_folder
from regard.manifest import MANIFEST, DamagedFile
from regard.train.checkpoint import Checkpoints


@dataclass(frozen=True)
class Verification:
    """What was checked in a folder, and what is wrong there."""

    checked: tuple[str, ...]
    problems: tuple[str, ...]


def verify(folder: Path) -> Verification:
    """Check every file of a model directory and every checkpoint of a run, or of a prepared corpus."""
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder")
    if is_prepared(folder):
        return _verify_prepared(folder)
    checked, problems = [], []
    if has_model(folder):
        problems += verify_files(folder)
        edited = not problems and card_was_edited(folder)
        checked.append(f"the model{' (whose README.md was edited)' if edited else ''}")
    checkpoints = Checkpoints(folder / "checkpoints", keep=1)
    problems += checkpoints.damaged()
    for checkpoint in checkpoints.all():
        checked.append(f"the checkpoint of step {checkpoint.step:,}")
        try:
            checkpoint.tensors()
        except DamagedFile as error:
            problems.append(str(error))
    if not checked and not problems:
        raise UserError(f"{folder}: holds neither a model nor checkpoints; give a directory that `regard train` wrote")
    return Verification(tuple(checked), tuple(problems))


def _verify_prepared(folder: Path) -> Verification:
    try:
        corpus = PreparedCorpus.open(folder, verify=True)
    except DamagedFile as error:
        return Verification((), (str(error),))
    return Verification((f"the prepared corpus of {len(corpus.pairs):,} pairs",), ())


def accept(folder: Path) -> None:
    """Accept the files of a model directory as they are: write their checksums anew."""
    if not has_model(folder):
        raise UserError(f"{folder}: holds no model whose files could be accepted")
    with lock_folder(folder):
        accept_files(folder)


def has_model(folder: Path) -> bool:
    return any((folder / name).exists() for name in (WEIGHTS, CONFIG, MANIFEST))
