"""Arguments and options that several verbs share."""

from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand

from regard.errors import UserError

ModelDirArgument = Annotated[Path, typer.Argument(metavar="DIR", help="A model directory, written by `regard train`.")]
BeamOption = Annotated[int | None, typer.Option(min=1, help="Beam width; 1 is greedy.  [default: the model's]")]
ConfigOption = Annotated[Path | None, typer.Option(help="A YAML file whose options override the recipe's.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override one option, e.g. train.lr=1e-3; repeatable."),
]
DeviceOption = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 …  [default: a GPU if there is one]")]
EngineOption = Annotated[
    str,
    typer.Option(
        metavar="ENGINE",
        help="What runs the search: torch, ctranslate2, ctranslate2:int8, or auto (CTranslate2 where it can be used).",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
JsonLinesOption = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]
MaxSourceOption = Annotated[
    int | None, typer.Option(min=1, help="Refuse sources of more tokens than this.  [default: the model's]")
]
LanguagesOption = Annotated[
    str | None,
    typer.Option(metavar="SRC-TGT", help="Language codes, e.g. en-fr.  [default: from the file names]"),
]
PairFilesArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILES",
        help="Two line-aligned files, or one file of pairs (.tsv, .csv, .jsonl, .tmx, .xlf, .zip, .parquet); plain, "
        ".gz, .xz or .zst; or a folder of Parquet files or of Hugging Face datasets.",
    ),
]
SampleOption = Annotated[bool, typer.Option("--sample", help="Sample tokens at random instead of searching.")]
TemperatureOption = Annotated[
    float | None, typer.Option(help="With --sample: below 1 is more predictable, above 1 more varied.")
]
TopKOption = Annotated[int | None, typer.Option(help="With --sample: only from the K most likely tokens.")]
TopPOption = Annotated[
    float | None, typer.Option(help="With --sample: only from the most likely tokens with this total probability.")
]
SeedOption = Annotated[int | None, typer.Option(help="With --sample: the same seed gives the same output.")]
TargetOption = Annotated[
    str | None, typer.Option(help="Force this output, instead of the one that the model generates.")
]
ToOption = Annotated[
    str | None,
    typer.Option(metavar="LANG", help="Target language, such as fr; for models with several."),
]
TextOption = Annotated[list[str] | None, typer.Option(help="This text instead of standard input; repeatable.")]
TokenizeOption = Annotated[str, typer.Option(help="sacreBLEU's tokenizer; none for text that is tokenized already.")]
ValidOption = Annotated[
    list[Path] | None,
    typer.Option(metavar="SRC TGT", help="Validation files.  [default: some of the training data is held out]"),
]
WordsOption = Annotated[
    bool, typer.Option("--words", help="Merge subword tokens into words and leave special tokens out.")
]


class ValidPairCommand(TyperCommand):
    """A command whose --valid takes the two files of a pair, `--valid SRC TGT`, or one file of pairs."""

    pair_options: ClassVar[tuple[str, ...]] = ("--valid",)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        from regard.data.pair_readers import is_pair_file

        expanded = list(args)
        for i in reversed([i for i, arg in enumerate(args) if arg in self.pair_options]):
            first, second = ([*args[i + 1 :], "", ""])[:2]
            if second and not second.startswith("-") and not is_pair_file(Path(first)):
                expanded.insert(i + 2, args[i])
        return super().parse_args(ctx, expanded)


def parse_languages(codes: str | None) -> tuple[str, str] | None:
    """Return the two codes of --languages; None without the option."""
    from regard.data.pair_readers import split_languages

    if codes is None:
        return None
    try:
        return split_languages(codes)
    except ValueError as error:
        raise UserError(f"--languages {codes}: {error}") from None


def without_none(**options: Any) -> dict[str, Any]:
    """Return the options that are set."""
    return {name: value for name, value in options.items() if value is not None}


def sampling_options(sample: bool, **options: Any) -> dict[str, Any] | None:
    """Return the options of sampling; None without --sample."""
    given = without_none(**options)
    if given and not sample:
        raise UserError(f"--{next(iter(given)).replace('_', '-')} has no effect without --sample; add --sample")
    return given if sample else None
