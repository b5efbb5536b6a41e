"""The training of a model as one step of a longer job: it continues where it was, and is done once."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.config import read_yaml
from regard.data.mixture_file import read_mixture
from regard.errors import UserError
from regard.evaluate.validation import validation_order
from regard.files import write_atomically
from regard.manifest import read_regular
from regard.train.auto_recipe import AutoRecipe
from regard.train.recipe import AUTO, Recipe, load_recipe
from regard.train.run import Run, train
from regard.train.tasks import get_task

_SCORES = "scores.json"


@dataclass(frozen=True)
class ModelTraining:
    """How each model of a job is trained; the options are those of `regard train`."""

    recipe: str = AUTO
    config: Path | None = None
    settings: tuple[str, ...] = ()
    minutes: float | None = None
    """The time for each model, with the recipe auto"""
    device: str | None = None

    def __post_init__(self) -> None:
        if self.minutes is not None and not self.is_auto:
            seconds = f"--set train.seconds={60 * self.minutes:g}"
            raise UserError(f"--minutes is for the recipe {AUTO}; with {self.recipe}, use {seconds}")
        recipe = self.load()
        if recipe.task != "translate":
            raise UserError(f"--recipe {self.recipe}: is for the task {recipe.task}; choose one for translation")
        get_task(recipe.task).check(recipe)
        if recipe.glossary.share:
            raise UserError(
                "glossary.share: annotated terms need word alignments, so they are for `regard train`; set it to 0"
            )

    @property
    def is_auto(self) -> bool:
        return self.recipe == AUTO

    @property
    def default_recipe(self) -> Recipe:
        """The recipe without what the user has set"""
        return load_recipe(self.recipe)

    def load(self, defaults: Mapping[str, Any] | None = None, fixed: Sequence[str] = ()) -> Recipe:
        """Return the recipe. The user's options override `defaults`, and the settings `fixed` override everything."""
        return load_recipe(self.recipe, self.config, (*self.settings, *fixed), defaults)

    def facts(self) -> dict[str, Any]:
        """Return what influences the result, for `job_folder`."""
        config = read_yaml(self.config) if self.config else {}
        return {"recipe": self.recipe, "config": config, "settings": list(self.settings), "minutes": self.minutes}

    def run(
        self,
        data: Path,
        valid: Sequence[Path] | None,
        out: Path,
        languages: tuple[str, str],
        defaults: Mapping[str, Any] | None = None,
        fixed: Sequence[str] = (),
        tokenizer: Path | None = None,
    ) -> Run:
        """Return a run that trains on the corpora of a YAML file, or continues; `defaults` and `fixed` as in `load`."""
        settings = (*self.settings, *fixed)
        return Run(
            recipe=self.load(defaults, fixed),
            auto=AutoRecipe(self.config, settings, self.minutes, defaults or {}) if self.is_auto else None,
            train=(),
            mixture=read_mixture(data),
            valid=tuple(valid) if valid else None,
            out=out,
            languages=languages,
            tokenizer=tokenizer,
            device=self.device,
            resume=True,
        )


@dataclass(frozen=True)
class TrainedModel:
    """A model directory, and the validation scores of its weights."""

    folder: Path
    loss: float
    bleu: float
    chrf: float

    @property
    def order(self) -> tuple[float, float]:
        """Sort key: greater is better"""
        return validation_order(self.bleu, self.loss)


def is_trained(folder: Path) -> bool:
    """Whether `train_once` has trained the model in a folder to its end"""
    return (folder / _SCORES).exists()


def train_once(run: Run) -> TrainedModel:
    """Train a model, or continue; return what is known of it if that was done before."""
    path = run.out / _SCORES
    if not is_trained(run.out):
        validation = train(run).validation
        scores = {"loss": validation.loss, "bleu": validation.scores["bleu"], "chrf": validation.scores["chrf"]}
        write_atomically(path, (json.dumps(scores) + "\n").encode())
    try:
        return TrainedModel(run.out, **json.loads(read_regular(path)))
    except (ValueError, TypeError):
        raise UserError(f"{path}: damaged; delete it and give the command again") from None
