"""Options of the verbs that make synthetic data, as groups."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import (
    BeamOption,
    ConfigOption,
    DeviceOption,
    SampleOption,
    SeedOption,
    SetOption,
    TemperatureOption,
    TopKOption,
    TopPOption,
    sampling_options,
    without_none,
)
from regard.cli.pipeline import check_device
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.synthetic.model_training import ModelTraining
    from regard.synthetic.pair_filter import PairFilter


@dataclass(frozen=True)
class SynthesisOptions:
    """How texts are translated, and which pairs are kept."""

    beam: BeamOption = None
    sample: SampleOption = False
    temperature: TemperatureOption = None
    top_k: TopKOption = None
    top_p: TopPOption = None
    seed: SeedOption = None
    min_score: Annotated[
        float | None,
        typer.Option(help="Drop synthetic pairs whose mean log-probability per token is lower, e.g. -1.5."),
    ] = None
    keep: Annotated[float, typer.Option(help="Keep this share of the synthetic pairs: those with the best scores.")] = (
        1.0
    )

    def search(self, to: str | None = None) -> dict[str, Any]:
        """Return the options of the translator that were given, if they make sense together."""
        if self.sample and self.beam is not None:
            raise UserError(
                "--sample draws tokens instead of searching, so --beam has no effect; leave one of them out"
            )
        names = ("temperature", "top_k", "top_p", "seed")
        sampling = sampling_options(self.sample, **{name: getattr(self, name) for name in names})
        return without_none(beam=self.beam, sampling=sampling, to=to)

    def filter(self) -> "PairFilter":
        from regard.synthetic.pair_filter import PairFilter

        return PairFilter.parse({"min_score": self.min_score, "keep": self.keep}, where="")


@dataclass(frozen=True)
class StepTrainingOptions:
    """How the models of a job are trained."""

    minutes: Annotated[float | None, typer.Option(min=0.1, help="With the recipe auto: the time for each model.")] = (
        None
    )
    config: ConfigOption = None
    set_: SetOption = None
    device: DeviceOption = None

    def training(self, recipe: str) -> "ModelTraining":
        from regard.synthetic.model_training import ModelTraining

        return ModelTraining(recipe, self.config, tuple(self.set_ or ()), self.minutes, check_device(self.device))
