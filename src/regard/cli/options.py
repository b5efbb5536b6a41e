"""Arguments and options that several verbs share."""

from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand

from regard.cli.app import UsageError
from regard.errors import UserError

ModelDirArgument = Annotated[Path, typer.Argument(metavar="DIR", help="A model directory, written by `regard train`.")]
BeamOption = Annotated[int | None, typer.Option(min=1, help="Beam width; 1 is greedy.  [default: the model's]")]
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
TargetOption = Annotated[
    str | None, typer.Option(help="Force this output, instead of the one that the model generates.")
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
    if codes is None:
        return None
    src, separator, tgt = codes.partition("-")
    if not separator:
        raise UserError(f"--languages {codes}: write two codes with a hyphen, for example en-fr")
    return src, tgt


class StandardInputCommand(TyperCommand):
    """A command that reads standard input, and says so if it gets a file as an argument."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except UsageError as error:
            if "unexpected extra argument" not in error.message:
                raise
            name = error.message.rpartition("(")[2].rstrip(")")
            raise UserError(
                f"{name}: {self.name} reads lines of text from standard input; write `--input {name}`"
            ) from None
