import json
import os
from pathlib import Path

import pytest
import torch

from regard.errors import UserError
from regard.manifest import DamagedFile, Manifest
from regard.train.average import average_checkpoints
from regard.train.checkpoint import Checkpoints, read_newest


def tensors(value: float) -> dict[str, torch.Tensor]:
    return {"model.w": torch.full((20, 20), value), "adam.step.w": torch.tensor(value)}


def save(checkpoints: Checkpoints, step: int, score: float | None = None) -> None:
    checkpoints.save(step, tensors(float(step)), {} if score is None else {"score": score})


def test_a_saved_checkpoint_is_read_back(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    assert read_newest(checkpoints) is None
    save(checkpoints, 10, score=1.5)
    newest = read_newest(checkpoints)
    assert newest is not None
    checkpoint, read, problems = newest
    assert (checkpoint.step, checkpoint.score, problems) == (10, 1.5, [])
    assert all(torch.equal(read[name], tensor) for name, tensor in tensors(10.0).items())


def test_the_newest_and_the_best_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step, score in ((1, 9.0), (2, 1.0), (3, 8.0), (4, 2.0), (5, 3.0), (6, None)):
        save(checkpoints, step, score)
    assert [c.step for c in checkpoints.all()] == [1, 3, 4, 5, 6]
    assert [c.step for c in checkpoints.best(2)] == [1, 3]
    assert [c.step for c in checkpoints.last(2)] == [4, 5]
    for step, loss in ((7, 2.0), (8, 1.0), (9, 3.0)):
        checkpoints.save(step, tensors(0.0), {"score": 50.0, "loss": loss})
    assert [c.step for c in checkpoints.best(2)] == [8, 7], "of equal scores those of lower loss"


def test_a_validation_of_nan_is_the_worst_and_leaves_the_order_of_the_others(tmp_path: Path) -> None:
    nan = float("nan")
    values = [(1, 5.0, 1.0), (2, nan, nan), (3, 7.0, 1.0), (4, 7.0, nan), (5, nan, 0.5), (6, 6.0, 1.0)]
    for order in (values, values[::-1]):
        checkpoints = Checkpoints(tmp_path / str(order[0][0]), keep=6)
        for step, score, loss in order:
            checkpoints.save(step, tensors(float(step)), {"score": score, "loss": loss})
        assert [c.step for c in checkpoints.best(6)] == [3, 4, 6, 1, 5, 2]
        assert [c.step for c in checkpoints.best(1)] == [3]


def test_a_damaged_checkpoint_is_not_used_but_the_one_before_it(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    save(checkpoints, 1)
    save(checkpoints, 2)
    path = tmp_path / "step-00000002" / "state.safetensors"
    content = path.read_bytes()
    generator = torch.Generator().manual_seed(0)
    for _ in range(200):
        place = int(torch.randint(len(content), (1,), generator=generator))
        flipped = bytearray(content)
        flipped[place] ^= 1 << int(torch.randint(8, (1,), generator=generator))
        path.write_bytes(bytes(flipped))
        with pytest.raises(DamagedFile):
            checkpoints.all()[-1].tensors()
        path.write_bytes(content[:place])
        with pytest.raises(DamagedFile):
            checkpoints.all()[-1].tensors()
    newest = read_newest(checkpoints)
    assert newest is not None and newest[0].step == 1
    [problem] = newest[2]
    assert "step-00000002" in problem and ("SHA-256 differs" in problem or "bytes" in problem)
    (tmp_path / "step-00000001" / "state.safetensors").write_bytes(b"")
    with pytest.raises(UserError, match="no checkpoint can be used"):
        read_newest(checkpoints)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"[" * 100_000, b'{"step": "x"}'])
def test_a_checkpoint_with_a_damaged_manifest_is_reported_and_not_used(content: bytes, tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    save(checkpoints, 1)
    save(checkpoints, 2)
    (tmp_path / "step-00000002" / "manifest.json").write_bytes(content)
    newest = read_newest(checkpoints)
    assert newest is not None and newest[0].step == 1
    assert newest[2] == [f"{tmp_path / 'step-00000002' / 'manifest.json'}: damaged"]
    (tmp_path / "step-00000001" / "manifest.json").write_bytes(content)
    with pytest.raises(UserError, match="no checkpoint can be used"):  # a resumed run must not start again from 0
        read_newest(checkpoints)


@pytest.mark.parametrize("call", ["fsync", "rename", "replace"])
def test_a_save_that_fails_at_any_call_leaves_a_complete_checkpoint(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All writes use these calls. Each call fails in turn, as if the process were killed at that moment."""
    checkpoints = Checkpoints(tmp_path, keep=2)
    save(checkpoints, 1)
    module, real = (os, os.fsync) if call == "fsync" else (Path, getattr(Path, call))
    for fails_at in range(20):
        calls = 0

        def failing(*args: object, fails_at: int = fails_at) -> object:
            nonlocal calls
            calls += 1
            if calls > fails_at:
                raise OSError(28, "No space left on device")
            return real(*args)  # type: ignore[operator]

        with monkeypatch.context() as patch:
            patch.setattr(module, call, failing)
            try:
                save(checkpoints, 2)
                failed = False
            except UserError as error:
                failed = True
                assert "No space left" in str(error) and "MiB free" in str(error)
        newest = read_newest(checkpoints)
        assert newest is not None and not newest[2]
        assert [p for p in tmp_path.iterdir() if p.name.endswith(".tmp")] == []
        if not failed:
            return
    pytest.fail("a save makes fewer calls than that")


def test_the_average_of_one_checkpoint_is_itself_and_of_two_their_mean(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=5)
    save(checkpoints, 1, 1.0)
    save(checkpoints, 4, 1.0)
    first, second = checkpoints.all()
    assert torch.equal(average_checkpoints([first])["w"], tensors(1.0)["model.w"])
    assert torch.equal(average_checkpoints([first, second])["w"], torch.full((20, 20), 2.5))
    checkpoints.save(9, {**tensors(1.0), "ema.w": torch.full((20, 20), 7.0)}, {})
    assert torch.equal(average_checkpoints([checkpoints.all()[-1]])["w"], torch.full((20, 20), 7.0))


def test_a_checkpoint_contains_no_pickle(tmp_path: Path) -> None:
    save(Checkpoints(tmp_path, keep=2), 1)
    folder = tmp_path / "step-00000001"
    assert sorted(p.name for p in folder.iterdir()) == ["manifest.json", "state.safetensors"]
    assert json.loads((folder / "manifest.json").read_text())["schema"] == 2


def test_every_change_of_a_manifest_is_noticed(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    checkpoints.save(1, tensors(1.0), {"progress": {"step": 1, "epoch": 0, "batch": 17}, "score": 1.25})
    path = tmp_path / "step-00000001" / "manifest.json"
    content = path.read_bytes()
    facts = checkpoints.all()[0].facts
    for place in range(len(content)):
        for bit in (0, 2, 4):
            flipped = bytearray(content)
            flipped[place] ^= 1 << bit
            path.write_bytes(bytes(flipped))
            assert all(checkpoint.facts == facts for checkpoint in checkpoints.all()), (place, bit)
    assert checkpoints.damaged()


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"schema": 1}, "another version of regard"),
        ({"step": 2}, "of another step"),
        ({"loss": "x"}, "its loss is not a number"),
        ({"score": None}, "its score is not a number"),
        ({"made_with": "x"}, "'made_with' are not a mapping"),
    ],
)
def test_a_checkpoint_of_another_version_or_step_or_with_forged_facts_is_not_used(
    facts: dict[str, object], message: str, tmp_path: Path
) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    save(checkpoints, 1)
    folder = tmp_path / "step-00000001"
    manifest = Manifest.read(folder)
    Manifest(manifest.files, {**manifest.facts, **facts}).write(folder)
    with pytest.raises(UserError, match=message):
        read_newest(checkpoints)


def test_a_checkpoint_with_numbers_that_are_not_finite_is_not_used(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    save(checkpoints, 1)
    checkpoints.save(2, tensors(float("nan")), {})
    newest = read_newest(checkpoints)
    assert newest is not None and newest[0].step == 1
    assert "not finite" in newest[2][0]


def test_saving_the_same_state_again_never_removes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a step was saved before its validation and is saved with the score after it."""
    checkpoints = Checkpoints(tmp_path, keep=2)
    save(checkpoints, 1)
    monkeypatch.setattr("regard.train.checkpoint.new_folder", None)  # would replace the folder
    save(checkpoints, 1, score=3.0)
    assert [c.score for c in checkpoints.all()] == [3.0]


def test_deleting_a_checkpoint_never_leaves_a_part_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in (1, 2):
        save(checkpoints, step)
    monkeypatch.setattr("shutil.rmtree", lambda *args, **options: None)  # killed before it deletes anything
    save(checkpoints, 3)
    assert [c.step for c in checkpoints.all()] == [2, 3]
    assert checkpoints.damaged() == []


def test_time_based_checkpoints_do_not_pile_up(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=5)
    for step in range(1, 20):
        save(checkpoints, step)
    assert [c.step for c in checkpoints.all()] == [18, 19]


def test_checkpoints_of_different_shapes_are_not_averaged(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=5)
    save(checkpoints, 1, 1.0)
    checkpoints.save(2, {"model.w": torch.zeros(3)}, {"score": 1.0})
    with pytest.raises(UserError, match="step-00000002: its tensors are not those of the other"):
        average_checkpoints(checkpoints.all())
