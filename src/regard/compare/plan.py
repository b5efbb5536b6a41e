"""What a comparison trains: recipes and their variants, the shared data and the budget."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.compare.measure import TestPlan
from regard.config import merge, overrides, read_yaml
from regard.errors import UserError
from regard.paths import check_input_file
from regard.train.recipe import Recipe, recipe_folder, recipe_names

_UNLIMITED_UPDATES = 10**9  # when the budget is in seconds


@dataclass(frozen=True)
class ComparisonPlan:
    """Recipes to train on the same files under the same budget, and the test that all of them take.

    The budget is a number of updates or of seconds, for each model.
    """

    recipes: tuple[str, ...]
    """Recipe names or YAML files, each with optional settings appended: `tiny+model.positions=rotary`"""
    train: tuple[Path, ...]
    valid: tuple[Path, ...] | None
    test: TestPlan
    out: Path
    updates: int | None = None
    seconds: float | None = None
    settings: tuple[str, ...] = ()
    """For all recipes (`train.lr=1e-3`) or for one (`tiny:train.lr=1e-3`)"""
    device: str | None = None
    repeat: bool = False
    """Measure finished models again"""

    def __post_init__(self) -> None:
        if (self.updates is None) == (self.seconds is None):
            raise UserError("give the training budget of each model: either --updates N or --seconds S")
        if not self.recipes:
            raise UserError("--recipes: name at least one, for example --recipes tiny,small")
        for path in self.files:
            check_input_file(path, read_once=False)

    @property
    def files(self) -> list[Path]:
        """The files of training, validation and test"""
        return [*self.train, *(self.valid or ()), *self.test.files, *filter(None, [self.test.alignments])]

    def contenders(self) -> list["Contender"]:
        """Return one Contender per recipe, in order, without duplicates."""
        return [_contender(self, label) for label in dict.fromkeys(self.recipes)]


@dataclass(frozen=True)
class Contender:
    """One of the models to compare. `recipe` is None if it is invalid, and `error` says why."""

    label: str
    folder: Path
    recipe: Recipe | None
    error: str = ""


def split_recipes(text: str) -> list[str]:
    """Split `tiny,rnn-dot+model.x=[1,2]` at its commas, except for those inside brackets."""
    return [part.strip() for part in re.split(r",(?![^\[{]*[\]}])", text) if part.strip()]


def _contender(plan: ComparisonPlan, label: str) -> Contender:
    name, *variations = split_label(label)
    folder = plan.out / _folder_name(label)
    shared, individual = _split_settings(plan, name, label)
    individual += variations
    try:
        if setting := next((setting for setting in individual if setting.startswith("tokenizer.")), None):
            raise UserError(f"{setting}: all models share one tokenizer; write --set {setting} for all of them")
        recipe = _load_recipe(name, [*_budget_settings(plan), *shared, *individual])
        if recipe.task != "translate":
            raise UserError(f"{name} is for the task {recipe.task}; compare takes recipes for translation")
    except UserError as error:
        return Contender(label, folder, None, str(error))
    return Contender(label, folder, recipe)


def _folder_name(label: str) -> str:
    name = re.sub(r"[^\w.=+-]+", "_", label).strip(".")
    if name != label:  # two labels may differ only in characters that a folder name cannot have
        name += f"-{hashlib.sha256(label.encode()).hexdigest()[:6]}"
    return "tokenizer-model" if name == "tokenizer" else name


def _budget_settings(plan: ComparisonPlan) -> list[str]:
    if plan.updates is not None:
        limits = [f"train.steps={plan.updates}", f"train.log_every={min(50, max(1, plan.updates // 5))}"]
    else:
        limits = [f"train.steps={_UNLIMITED_UPDATES}", f"train.seconds={plan.seconds}", "train.log_every=10"]
    return [*limits, "train.patience=0"]  # no early stopping: every model uses its whole budget


def _split_settings(plan: ComparisonPlan, name: str, label: str) -> tuple[list[str], list[str]]:
    """Return the settings for all models, and those given as `NAME:key=value` for this one."""
    shared, individual = [], []
    for setting in plan.settings:
        owners = (owner for recipe in plan.recipes for owner in (recipe, split_label(recipe)[0]))
        owner = next((owner for owner in owners if setting.startswith(f"{owner}:")), None)
        if owner is None:
            shared.append(setting)
        elif owner in (name, label):
            individual.append(setting.removeprefix(f"{owner}:"))
    return shared, individual


def split_label(label: str) -> list[str]:
    """Split `tiny+model.n_layers=1+train.lr=1e+0` into the recipe's name and the settings."""
    return re.split(r"\+(?=[A-Za-z_][\w.]*=)", label)


def _load_recipe(name: str, settings: Sequence[str]) -> Recipe:
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        check_input_file(path)
    elif name in recipe_names():
        path = recipe_folder() / f"{name}.yaml"
    else:
        raise UserError(f"--recipes {name}: unknown; choose from {', '.join(recipe_names())}, or give a .yaml file")
    return Recipe.parse(merge(read_yaml(path), overrides(settings)), where=name)
