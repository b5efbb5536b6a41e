"""A recipe: all options of a run, from a named YAML file, a file of the user and --set."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import yaml
from pydantic import SerializeAsAny, field_validator, model_validator

import regard
from regard import models
from regard.bundle import TaskName
from regard.config import Config, merge, overrides, read_yaml
from regard.data.batch import padded_length
from regard.data.batch_order import BatchConfig
from regard.data.pair_rules import FilterConfig
from regard.data.term_annotator import GlossaryConfig
from regard.errors import UserError
from regard.evaluate.validation import ValidConfig
from regard.models import ModelConfig
from regard.models.decoder_only import CONCATENATION_ERROR, DecoderOnlyConfig
from regard.models.encoder_decoder import TransformerConfig
from regard.search.decode import DecodeConfig
from regard.text.tokenizer import TokenizerConfig
from regard.train.parent_model import parent_model, with_dropout
from regard.train.train_config import TrainConfig

AUTO = "auto"
"""Name of the recipe whose options are chosen by the corpus"""


class Recipe(Config):
    task: TaskName = "translate"
    """What is learnt: pairs of sentences, plain text, masked tokens of plain text, labels, or captions of images."""
    data: FilterConfig = FilterConfig()
    """Training pairs to leave out; only for task translate."""
    glossary: GlossaryConfig = GlossaryConfig()
    """Training on annotated terms, for glossaries; only for task translate, with word alignments."""
    tokenizer: TokenizerConfig = TokenizerConfig()
    batch: BatchConfig = BatchConfig()
    model: SerializeAsAny[ModelConfig] = TransformerConfig()
    train: TrainConfig = TrainConfig()
    valid: ValidConfig = ValidConfig()
    decode: DecodeConfig = DecodeConfig()

    @field_validator("model", mode="before")
    @classmethod
    def parse_model(cls, options: Any) -> ModelConfig:
        return models.parse_config(options, where="")

    @model_validator(mode="after")
    def check_concatenation(self) -> Self:
        if self.task == "translate" and isinstance(self.model, DecoderOnlyConfig) and not self.model.can_concatenate:
            raise ValueError(CONCATENATION_ERROR)
        return self

    @model_validator(mode="after")
    def check_positions(self) -> Self:
        parts = [getattr(self.model, name, None) for name in ("encoder", "decoder")]
        limits = [n for part in (self.model, *parts) if (n := getattr(part, "max_positions", None)) is not None]
        if not limits:
            return self
        if self.task in ("text", "masked"):
            option, length = f"batch.context={self.batch.context}", self.batch.context
        else:
            option, length = f"batch.max_tokens={self.batch.max_tokens}", padded_length(self.batch.max_tokens + 1)
            length *= 2 if self.model.kind == "decoder" else 1  # source and target in one sequence
        if length > min(limits):
            raise ValueError(
                f"{option} makes sequences of up to {length} tokens, more than the max_len={min(limits)} learned "
                "positions (or positions of the location score) of the model; change one of them"
            )
        if resampling := self.tokenizer.resampling:
            raise ValueError(f"tokenizer.{resampling} may make sentences longer than the model's max_len; set it to 0")
        return self

    @model_validator(mode="after")
    def check_source_limit(self) -> Self:
        if self.task == "translate" and self.decode.max_source < self.batch.max_tokens:
            raise ValueError(
                f"decode.max_source={self.decode.max_source} is less than batch.max_tokens={self.batch.max_tokens}: "
                "the model could not translate what it learns from; raise decode.max_source"
            )
        return self

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)


def recipe_folder() -> Path:
    """Return the folder of the recipes: in the installed package, or at the top of the repository."""
    package = Path(regard.__file__).parent
    installed = package / "recipes"
    return installed if installed.is_dir() else package.parents[1] / "recipes"


def recipe_names() -> list[str]:
    return sorted(path.stem for path in recipe_folder().glob("*.yaml"))


def load_recipe(
    name: str, config: Path | None = None, settings: Sequence[str] = (), chosen: Mapping[str, Any] | None = None
) -> Recipe:
    """Return the named recipe, overridden by the file `config` and then by `settings` such as "train.lr=1e-3".

    `chosen` are options that override the recipe, but nothing that the user has set. A run that starts from another
    model (`train.init`) gets the options of that model, so that its weights fit.

    >>> recipe = regard.load_recipe("base", settings=["train.steps=10"])
    >>> recipe.model.d_model, recipe.train.steps
    (512, 10)
    """
    path = recipe_folder() / f"{name}.yaml"
    if name not in recipe_names():
        raise UserError(f"--recipe {name}: unknown; choose one of {', '.join(recipe_names())}")
    by_file, by_settings = {} if config is None else read_yaml(config), overrides(settings)
    tree, user = merge(read_yaml(path), chosen or {}), merge(by_file, by_settings)
    if init := _section(user, "train").get("init"):
        tree = _from_parent(Path(str(init)), tree, user, _section(chosen or {}, "model") if name == AUTO else None)
    where = "--set" if settings else f"recipe {name}" if config is None else str(config)
    return Recipe.parse(merge(tree, user), where=where)


def _from_parent(
    init: Path, tree: Mapping[str, Any], user: Mapping[str, Any], chosen: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return a recipe with the model options of `init`, but the dropout that the recipe auto has `chosen`, if any."""
    if not init.exists():  # a resumed run does not need it
        return dict(tree)
    task = user.get("task", tree.get("task", Recipe().task))
    of_recipe = _section(tree, "model") if chosen is None else {}
    model = parent_model(init, task, of_recipe, _section(user, "model"))
    return {**tree, "model": with_dropout(model, chosen or {})}


def _section(tree: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a part of a recipe; empty if it is not a mapping, which the recipe's own check refuses."""
    section = tree.get(name)
    return section if isinstance(section, Mapping) else {}
