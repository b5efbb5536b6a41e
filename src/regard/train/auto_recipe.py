"""From the recipe `auto` and what the user has set to a recipe for one corpus and one machine."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from regard.bundle import NO_LANGUAGES
from regard.config import flatten, merge, overrides, read_yaml
from regard.errors import UserError
from regard.text.direction import Directions
from regard.train.auto import Plan, Size, choose, row_for
from regard.train.corpus_facts import CorpusFacts
from regard.train.log import duration
from regard.train.parent_model import translates_others
from regard.train.recipe import AUTO, Recipe, load_recipe
from regard.train.update_time import measure_update_time

_UNKNOWN = Directions.of([NO_LANGUAGES])

_MIN_MINUTES = 0.1
_CPU_MINUTES = 480.0  # without a GPU and without --minutes, training takes a night at most


@dataclass(frozen=True)
class AutoRecipe:
    """The options that the user has set, and the time there is; everything else is chosen."""

    config: Path | None = None
    settings: Sequence[str] = ()
    minutes: float | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Options of a job such as distillation, which override what is chosen but nothing that the user has set"""

    def __post_init__(self) -> None:
        if self.minutes is not None and not _MIN_MINUTES <= self.minutes < float("inf"):
            raise UserError(f"minutes must be a number of at least {_MIN_MINUTES}, not {self.minutes}")

    def load(self, chosen: dict[str, Any] | None = None) -> Recipe:
        """Return the recipe with the chosen options, which the defaults and those of the user override."""
        return load_recipe(AUTO, self.config, self.settings, merge(chosen or {}, self.defaults))

    def user_options(self) -> dict[str, Any]:
        """Return the options that are not chosen: those that the user has set, and the defaults of a job."""
        by_file = read_yaml(self.config) if self.config else {}
        return merge(self.defaults, merge(by_file, overrides(self.settings)))

    def plan(
        self,
        facts: CorpusFacts,
        device: torch.device,
        elapsed: float = 0.0,
        directions: Directions = _UNKNOWN,
        ranks: int = 1,
    ) -> Plan:
        """Choose the options for a corpus of these directions; `elapsed` seconds of the time are already over."""
        minutes = self.minutes if self.minutes is not None or device.type != "cpu" else _CPU_MINUTES
        seconds = None if minutes is None else 60 * minutes - elapsed
        row = self._row(facts)

        @cache
        def measured(size: Size) -> float:
            plan = Plan(size, 1, 0.0, None, facts)
            return measure_update_time(self.load(plan.options()), device, ranks)

        def update_time(size: Size) -> float:
            return measured(replace(size, updates=1, bpe_dropout=0.0))  # an update takes the same time with others

        init = self.user_options().get("train", {}).get("init")
        others = init is not None and translates_others(Path(init), directions)
        return replace(choose(facts, row, update_time, _memory(device), seconds), init=init, other_languages=others)

    def _row(self, facts: CorpusFacts) -> Size:
        """Return the row of the table, with the number of updates that the user has set, if any."""
        steps = self.user_options().get("train", {}).get("steps")
        return row_for(facts) if steps is None else replace(row_for(facts), updates=self.load().train.steps)


def describe_plan(
    plan: Plan, device: torch.device, options: Mapping[str, Any], defaults: Mapping[str, Any] | None = None
) -> Iterator[str]:
    """Yield the lines that tell the user what was chosen, what is set by `options`, and how long it will take.

    Options that are in `defaults` too are those of a job.
    """
    n = torch.get_num_threads()
    where = "a GPU" if device.type == "cuda" else f"{n} CPU thread{'s' if n > 1 else ''}"
    yield f"auto: {plan.facts.describe()}, on {where}"
    given, by_job = flatten(options), flatten(defaults or {})
    for choice in plan.choices():
        names = [name for name in choice.options if name in given]
        settings = ", ".join(f"{name}={given[name]}" for name in names)
        setter = "this command" if all(given[name] == by_job.get(name) for name in names) else "you"
        value, reason = (settings, f"set by {setter}") if names else (choice.value, choice.reason)
        yield f"  {choice.what:15} {value:25} {reason}"
    yield f"  {'time':16}{f'about {duration(plan.training_seconds)}':26}for the updates, as measured on this machine"
    if plan.is_short:
        yield "  more time would give a better model: raise --minutes, or use a GPU"


def _memory(device: torch.device) -> float:
    """Return the memory of a device in bytes."""
    if device.type == "cuda":
        return float(torch.cuda.get_device_properties(device).total_memory)
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # not on this system
        return 8e9
