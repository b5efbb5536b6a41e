"""Options and folders of a run: what `train(Run(...))` accepts and refuses."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard.bundle import Bundle
from regard.errors import UserError
from regard.models.weights import weights_of
from regard.train.recipe import load_recipe
from regard.train.run import Run, train
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
