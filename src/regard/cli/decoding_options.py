"""Options of decoding that verbs share, as groups."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.options import (
    BeamOption,
    SampleOption,
    SeedOption,
    TemperatureOption,
    TopKOption,
    TopPOption,
    sampling_options,
    without_none,
)
from regard.errors import UserError


@dataclass(frozen=True)
class SearchOptions:
    """How translations are searched for or sampled."""

    beam: BeamOption = None
    n_best: Annotated[int | None, typer.Option(min=1, help="Print the N best translations with their scores.")] = None
    length_penalty: Annotated[float | None, typer.Option(help="Exponent α of the length normalisation.")] = None
    max_len: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of tokens.  [default: twice the source length plus 10]")
    ] = None
    min_len: Annotated[int | None, typer.Option(min=0, help="Minimum number of tokens.")] = None
    no_repeat_ngram: Annotated[int | None, typer.Option(min=0, help="Never repeat an n-gram of this size.")] = None
    sample: SampleOption = False
    temperature: TemperatureOption = None
    top_k: TopKOption = None
    top_p: TopPOption = None
    epsilon: Annotated[
        float | None, typer.Option(help="With --sample: only from tokens of at least this probability.")
    ] = None
    seed: SeedOption = None

    def options(self, mbr: bool) -> dict[str, Any]:
        """Return the options that were given, as those of TranslationConfig."""
        names = ("beam", "n_best", "length_penalty", "max_len", "min_len", "no_repeat_ngram")
        return without_none(**{name: getattr(self, name) for name in names}, sampling=self._sampling(mbr))

    def _sampling(self, mbr: bool) -> dict[str, Any] | None:
        """Return the options of sampling; None if nothing is sampled."""
        names = ("temperature", "top_k", "top_p", "epsilon", "seed")
        return sampling_options(self.sample or mbr, **{name: getattr(self, name) for name in names})


@dataclass(frozen=True)
class DecodingOptions:
    """Other models that help, and how a translation is chosen."""

    draft: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="A smaller model with the same tokenizer proposes tokens: greedy search, but faster."
        ),
    ] = None
    draft_tokens: Annotated[
        int | None,
        typer.Option(min=1, metavar="K", help="With --draft: tokens that it proposes at once.  [default: 4]"),
    ] = None
    mbr: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Take the one of N samples that is most like all of them (minimum Bayes risk by chrF).",
        ),
    ] = None
    rerank: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="A model of the other direction ranks the beam: can the source be recovered from it?"
        ),
    ] = None
    rerank_weight: Annotated[
        float | None, typer.Option(help="With --rerank: weight of log p(source | translation).  [default: 0.5]")
    ] = None
    rerank_length: Annotated[
        float | None, typer.Option(help="With --rerank: what each token adds to the score.  [default: 0]")
    ] = None
    coverage: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="β of the coverage penalty: rank the beam by how much of the source it covers.",
        ),
    ] = None

    def options(self, beam: int | None, sample: bool = False, n_best: int | None = None) -> dict[str, Any]:
        """Return the options that were given, as those of TranslationConfig, if they make sense together."""
        self._check(beam, sample, n_best)
        if self.coverage and sample:
            raise UserError("--coverage ranks the translations of a beam, and --sample has none; leave one of them out")
        names = ("draft_tokens", "mbr", "rerank_weight", "rerank_length", "coverage")
        return without_none(**{name: getattr(self, name) for name in names})

    @property
    def folders(self) -> dict[str, Path | None]:
        """The models that help, as arguments of `load`"""
        return {"draft": self.draft, "rerank": self.rerank}

    def _check(self, beam: int | None, sample: bool, n_best: int | None) -> None:
        for option, value, needed, other in (
            ("--draft-tokens", self.draft_tokens, "--draft", self.draft),
            ("--rerank-weight", self.rerank_weight, "--rerank", self.rerank),
            ("--rerank-length", self.rerank_length, "--rerank", self.rerank),
        ):
            if value is not None and other is None:
                raise UserError(f"{option} has no effect without {needed}; add {needed} DIR")
        if self.draft and beam not in (None, 1):
            raise UserError(f"--draft is for greedy search, not for --beam {beam}; leave one of them out")
        if self.draft and n_best not in (None, 1):
            raise UserError("--draft is for greedy search, which finds one translation; leave --n-best or --draft out")
        if (self.mbr or sample) and beam is not None:
            option = "--mbr" if self.mbr else "--sample"
            raise UserError(f"{option} samples instead of searching, so --beam has no effect; leave one of them out")
        if self.coverage and (self.draft or beam == 1):
            raise UserError("--coverage ranks the translations of a beam, and greedy search has one; leave it out")
