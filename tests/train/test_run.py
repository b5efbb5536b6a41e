"""Options and folders of a run: what `train(Run(...))` accepts and refuses."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard.bundle import Bundle
from regard.errors import UserError
from regard.lock import lock_folder
from regard.models.weights import weights_of
from regard.train.average import average_run
from regard.train.checkpoint import Checkpoints
from regard.train.log import read_metrics
from regard.train.recipe import load_recipe
from regard.train.run import Run, train
from regard.train.verify import accept, verify
from tests.conftest import write_pairs

SMALL = ("tokenizer.kind=word", "model.n_layers=1", "model.d_model=16", "model.d_ff=16", "model.n_heads=2")
SHORT = ("train.steps=4", "valid.every=2", "batch.tokens=128", "batch.workers=0", "valid.sentences=2")
PAIRS = [(f"a {x} b", f"c {x} d") for x in "efghijklmnopqrstuvwxyz"] * 2


def make_run(folder: Path, *settings: str) -> Run:
    files = write_pairs(folder / "data", "train", PAIRS)
    recipe = load_recipe("tiny", settings=(*SMALL, *SHORT, *settings))
    return Run(recipe, files, None, folder / "run", device="cpu")


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return weights_of(Bundle.load(folder).model)


def test_resuming_does_not_need_the_model_that_the_run_started_from(tmp_path: Path) -> None:
    start = tmp_path / "start"
    train(replace(make_run(tmp_path), out=start))
    run = make_run(tmp_path, f"train.init={start}")
    train(run)
    expected = weights(run.out)
    (run.out / "model.safetensors").unlink()
    newest = max((run.out / "checkpoints").glob("step-*"))
    shutil.rmtree(newest)  # so that there is something left to train
    shutil.rmtree(start)
    train(replace(run, resume=True))
    resumed = weights(run.out)
    assert all(torch.equal(resumed[name], tensor) for name, tensor in expected.items())


def test_a_run_without_a_checkpoint_still_needs_the_model_to_start_from(tmp_path: Path) -> None:
    run = make_run(tmp_path, f"train.init={tmp_path / 'nothing'}")
    with pytest.raises(UserError, match="nothing"):
        train(replace(run, resume=True))


def with_steps(run: Run, steps: int) -> Run:
    options = run.recipe.train.model_copy(update={"steps": steps})
    return replace(run, recipe=run.recipe.model_copy(update={"train": options}), resume=True)


def test_a_cosine_schedule_cannot_be_resumed_with_another_number_of_steps(tmp_path: Path) -> None:
    run = make_run(tmp_path, "train.schedule=cosine")
    train(run)
    with pytest.raises(UserError, match=r"train\.steps was 4 .* and is 6 now.*cosine"):
        train(with_steps(run, 6))
    assert train(with_steps(run, 4)).progress.step == 4, "the same number is fine"


@pytest.mark.parametrize("schedule", ["inverse-sqrt", "constant"])
def test_other_schedules_can_be_resumed_with_more_steps(schedule: str, tmp_path: Path) -> None:
    run = make_run(tmp_path, f"train.schedule={schedule}")
    train(run)
    assert train(with_steps(run, 6)).progress.step == 6
    longer = make_run(tmp_path / "longer", f"train.schedule={schedule}", "train.steps=6")
    train(longer)
    resumed, uninterrupted = weights(run.out), weights(longer.out)
    assert all(torch.equal(resumed[name], tensor) for name, tensor in uninterrupted.items())


def test_other_options_must_be_the_same(tmp_path: Path) -> None:
    train(make_run(tmp_path))
    with pytest.raises(UserError, match=r"train\.lr was 0\.003 .* and is 0\.01 now"):
        train(replace(make_run(tmp_path, "train.lr=0.01"), resume=True))
    with pytest.raises(UserError, match="--resume"):
        train(make_run(tmp_path))


def test_slow_updates_are_saved_and_reported_by_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the number of updates between two checkpoints or log lines is."""
    saved: list[int] = []
    real = Checkpoints.save
    monkeypatch.setattr(Checkpoints, "save", lambda self, step, *rest: (saved.append(step), real(self, step, *rest)))
    often = make_run(tmp_path / "often", "train.steps=5", "valid.every=1000", "train.save_minutes=1e-9")
    train(often)
    assert saved == [1, 2, 3, 4, 5, 5], "after each update, and with the validation at the end"
    saved.clear()
    seldom = make_run(tmp_path / "seldom", "train.steps=5", "valid.every=1000")
    train(seldom)
    assert saved == [5]
    expected = weights(seldom.out)
    assert all(torch.equal(tensor, expected[name]) for name, tensor in weights(often.out).items())
    steps = [row["step"] for row in read_metrics(seldom.out / "metrics.jsonl") if "loss" in row]
    assert steps == [1], "the first update gives the first estimate"
    monkeypatch.setattr("regard.train.trainer._REPORT_SECONDS", 0.0)
    reported = make_run(tmp_path / "reported", "train.steps=5", "valid.every=1000")
    train(reported)
    assert [row["step"] for row in read_metrics(reported.out / "metrics.jsonl") if "loss" in row] == [1, 2, 3, 4, 5]


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "train.steps=1")
    with lock_folder(run.out), pytest.raises(UserError, match="in use by process"):
        train(run)
    train(run)
    with lock_folder(run.out), pytest.raises(UserError, match="in use by process"):
        average_run(run.out, "last", 1, run.out)


@pytest.mark.parametrize("name", ["joint.json", "complete"])
def test_a_damaged_tokenizer_of_a_run_is_made_again(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", "train.steps=2", "valid.every=1")
    train(run)
    before = weights(run.out)
    path = run.out / "tokenizer" / name
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    train(replace(run, resume=True))
    assert "the tokenizer is made again" in capsys.readouterr().err
    assert all(torch.equal(tensor, before[name]) for name, tensor in weights(run.out).items())


def test_damaged_checkpoints_are_named_and_not_averaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run", "train.steps=3", "valid.every=1", "train.average_k=3")
    train(run)
    (run.out / "checkpoints" / "step-00000001" / "state.safetensors").write_bytes(b"x")
    (run.out / "checkpoints" / "step-00000002" / "manifest.json").write_bytes(b"x")
    capsys.readouterr()
    train(replace(run, resume=True))
    errors = capsys.readouterr().err
    assert "not used: " in errors and "step-00000001" in errors and "step-00000002" in errors
    assert verify(run.out).problems


def test_verify_names_every_damaged_file(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "train.steps=2", "valid.every=1")
    train(run)
    result = verify(run.out)
    assert result.checked == ("the model", "the checkpoint of step 1", "the checkpoint of step 2")
    assert not result.problems
    for path in (run.out / "config.json", run.out / "checkpoints" / "step-00000001" / "state.safetensors"):
        path.write_bytes(path.read_bytes() + b" ")
    problems = verify(run.out).problems
    assert len(problems) == 2 and "config.json" in problems[0] and "step-00000001" in problems[1]
    accept(run.out)
    assert len(verify(run.out).problems) == 1, "a checkpoint cannot be accepted"
    with pytest.raises(UserError, match="neither a model nor checkpoints"):
        verify(tmp_path)


def test_a_checkpoint_of_another_run_is_named_and_not_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Same shapes, same data, another seed: nothing but its origin tells it from the right one."""
    run = make_run(tmp_path / "a", "train.steps=4", "valid.every=2")
    other = make_run(tmp_path / "b", "train.steps=4", "valid.every=2", "train.seed=7")
    train(run)
    train(other)
    expected = weights(run.out)
    newest = run.out / "checkpoints" / "step-00000004"
    shutil.rmtree(newest)
    shutil.copytree(other.out / "checkpoints" / newest.name, newest)
    capsys.readouterr()
    train(replace(run, resume=True))
    assert "the checkpoint of another run" in capsys.readouterr().err
    assert all(torch.equal(tensor, expected[name]) for name, tensor in weights(run.out).items())


def test_a_pipe_in_the_place_of_the_metrics_does_not_hang(tmp_path: Path) -> None:
    run = make_run(tmp_path, "train.steps=1")
    run.out.mkdir()
    os.mkfifo(run.out / "metrics.jsonl")
    with pytest.raises(UserError, match="a device or pipe, not a file"):
        train(run)
