"""A model directory is replaced completely or not at all, and a changed file is never used."""

import json
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from regard import bundle_files
from regard.bundle import Bundle
from regard.bundle_files import read_files, update_file, verify_files, write_files
from regard.errors import UserError
from regard.manifest import DamagedFile
from regard.models.weights import weights_of

BUNDLE = Path(__file__).parent / "bundles" / "format-3" / "transformer"
OLD = {"config.json": b"old", "model.safetensors": b"old weights", "tokenizer/joint.spm": b"old pieces"}
NEW = {"config.json": b"new", "model.safetensors": b"new weights", "tokenizer/src.spm": b"s", "tokenizer/tgt.spm": b"t"}


class Killed(BaseException):
    """As if the process were killed."""


def contents(folder: Path) -> dict[str, bytes]:
    return {name: path.read_bytes() for name, path in read_files(folder).items() if name != "manifest.json"}


def kill_at(call: int) -> Callable[..., Any]:
    """Return a `Path.replace` that ends the process at its n-th call."""
    real, calls = Path.replace, 0

    def replace(self: Path, target: Path) -> Path:
        nonlocal calls
        calls += 1
        if calls == call:
            raise Killed
        return real(self, target)

    return replace


@pytest.mark.parametrize("call", range(1, 6))
def test_killed_at_any_move_the_new_model_is_complete(
    call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, OLD)
    assert contents(tmp_path) == OLD
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Path, "replace", kill_at(call))
        write_files(tmp_path, NEW)
    assert contents(tmp_path) == NEW
    assert verify_files(tmp_path) == []
    update_file(tmp_path, "config.json", b"newer")  # finishes the save first
    assert contents(tmp_path) == {**NEW, "config.json": b"newer"}
    assert not (tmp_path / ".new").exists()


def test_killed_before_the_new_files_are_complete_the_old_model_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, OLD)
    with monkeypatch.context() as patch, pytest.raises(UserError):
        patch.setattr("regard.files.sync_folder", raise_disk_full)
        write_files(tmp_path, NEW)
    assert contents(tmp_path) == OLD


def raise_disk_full(path: Path) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("name", [*OLD, "manifest.json"])
def test_a_changed_or_missing_file_is_named_with_what_to_do(name: str, tmp_path: Path) -> None:
    write_files(tmp_path, OLD)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content[:-2] + b"!!")
    with pytest.raises(DamagedFile, match=f"{name}: .*damaged.*; copy the model directory again") as error:
        read_files(tmp_path)
    assert "\n" not in str(error.value)
    assert len(verify_files(tmp_path)) == 1
    (tmp_path / name).unlink()
    if name != "manifest.json":
        with pytest.raises(DamagedFile, match=f"{name}: missing"):
            read_files(tmp_path)


def test_after_a_change_of_its_owner_it_can_be_accepted(tmp_path: Path) -> None:
    write_files(tmp_path, OLD)
    (tmp_path / "config.json").write_bytes(b"edited")
    bundle_files.accept_files(tmp_path)
    assert contents(tmp_path) == {**OLD, "config.json": b"edited"}


def test_a_reader_survives_that_the_files_are_replaced_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, OLD)
    real, once = bundle_files._read_manifest, iter([True])

    def slow_read(folder: Path) -> Any:
        manifest = real(folder)
        if next(once, False):
            write_files(folder, {name: content + b"+" for name, content in OLD.items()})
        return manifest

    monkeypatch.setattr(bundle_files, "_read_manifest", slow_read)
    assert contents(tmp_path)["config.json"] == b"old+"


def test_the_model_card_may_be_edited(tmp_path: Path) -> None:
    folder = shutil.copytree(BUNDLE, tmp_path / "model")
    (folder / "README.md").write_text("my own words")
    Bundle.load(folder)
    assert bundle_files.card_was_edited(folder)


def test_a_directory_that_lost_its_manifest_is_refused(tmp_path: Path) -> None:
    folder = shutil.copytree(BUNDLE, tmp_path / "model")
    (folder / "manifest.json").unlink()
    with pytest.raises(DamagedFile, match=r"manifest\.json: missing"):
        Bundle.load(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer/joint.json"])
def test_a_file_of_another_model_is_refused(name: str, tmp_path: Path) -> None:
    folder = shutil.copytree(BUNDLE, tmp_path / "model")
    other = shutil.copytree(BUNDLE, tmp_path / "other")
    content = bytearray((other / name).read_bytes())
    content[-3] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(DamagedFile, match=name):
        Bundle.load(folder)


@pytest.mark.parametrize(("key", "value"), [("d_model", 60_000), ("n_layers", 40), ("d_ff", 60_000)])
def test_a_config_that_does_not_fit_the_weights_is_refused_before_memory_is_used(
    key: str, value: int, tmp_path: Path
) -> None:
    folder = shutil.copytree(BUNDLE, tmp_path / "model")
    path = folder / "config.json"
    tree = json.loads(path.read_text())
    tree["model"][key] = value
    path.write_text(json.dumps(tree))
    bundle_files.accept_files(folder)
    before = memory_in_use()
    with pytest.raises(UserError, match="tensor"):
        Bundle.load(folder)
    assert memory_in_use() - before < 2**30


def memory_in_use() -> int:
    """Peak memory of this process in bytes"""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.parametrize("folder", sorted(BUNDLE.parent.glob("*/config.json")), ids=lambda path: path.parent.name)
def test_a_loaded_model_is_the_one_that_was_saved(folder: Path) -> None:
    """Loading skips the initialisation of weights, and must then set every one of them."""
    torch.manual_seed(0)
    state = torch.get_rng_state()
    first, second = (weights_of(Bundle.load(folder.parent).model) for _ in range(2))
    stored = load_file(folder.parent / "model.safetensors")
    assert first.keys() == stored.keys()
    assert all(torch.equal(first[name], stored[name]) and torch.equal(second[name], stored[name]) for name in stored)
    assert torch.equal(torch.get_rng_state(), state), "loading draws no random numbers"
