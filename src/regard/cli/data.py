"""`regard data`: built-in datasets as files, and parallel corpora inspected, cleaned and prepared for training."""

import json
import shlex
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from regard.cli.app import app
from regard.cli.options import (
    ConfigOption,
    JsonOption,
    LanguagesOption,
    PairFilesArgument,
    SetOption,
    ValidPairCommand,
    parse_languages,
)
from regard.cli.output import ProgressLine, make_out_folder, print_line, print_warning
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.data.prepared.corpus import PreparedCorpus


class DataGroup(TyperGroup):
    """Commands, and `builtin` for anything else: `regard data grammar OUT` is `regard data builtin grammar OUT`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        first = args[0] if args else ""
        if first not in self.commands and first not in ("-h", "--help"):
            args = ["builtin", *args]
        return super().parse_args(ctx, args)


class HeldOutPairsCommand(ValidPairCommand):
    """A command whose --valid and --test take the two files of a pair, or one file of pairs."""

    pair_options = ("--valid", "--test")


CorpusNamesArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="FILES",
        help="Two line-aligned files, or any number of files of pairs, of all formats of `regard train`. Names may "
        "be patterns in quotes ('part-*.en.gz') and URLs that fsspec can read (s3://…).",
    ),
]


data_app = typer.Typer(cls=DataGroup, rich_markup_mode=None, subcommand_metavar="NAME OUT | COMMAND FILES")
app.add_typer(data_app, name="data")


@data_app.callback()
def data() -> None:
    """Write a dataset; inspect, clean or prepare your own.

    `regard data NAME OUT` writes the dataset NAME (grammar, copy, reverse, sort, shapes or stories) to the folder OUT;
    `regard data builtin --help` lists its options.
    """


@data_app.command()
def builtin(
    name: Annotated[str, typer.Argument(metavar="NAME", help="grammar, copy, reverse, sort, shapes or stories.")],
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="The folder to write: new, empty, or written by this command before.")
    ],
    size: Annotated[
        int | None, typer.Option(help="Number of training examples; validation and test sets have at most a tenth.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same files.")] = 1,
    direction: Annotated[str, typer.Option(help="grammar only: en-fr or fr-en.")] = "en-fr",
    min_len: Annotated[int, typer.Option(help="Toy tasks only: minimum letters per line.")] = 3,
    max_len: Annotated[int, typer.Option(help="Toy tasks only: maximum letters per line.")] = 20,
    test_min_len: Annotated[
        int | None, typer.Option(help="Toy tasks only: minimum letters per test line.  [default: --min-len]")
    ] = None,
    test_max_len: Annotated[
        int | None, typer.Option(help="Toy tasks only: maximum letters per test line.  [default: --max-len]")
    ] = None,
) -> None:
    """Write a built-in dataset as files.

    grammar: English–French sentence pairs with word alignments. copy, reverse, sort: toy tasks on letters. shapes:
    images with captions. stories: short texts with summaries.
    """
    from regard.data.builtin.datasets import IMAGE_FOLDER, DatasetOptions, write_dataset
    from regard.data.builtin.toy_tasks import TASKS

    toy_only = {"min-len": min_len != 3, "max-len": max_len != 20}
    toy_only |= {"test-min-len": test_min_len is not None, "test-max-len": test_max_len is not None}
    if name not in TASKS and any(toy_only.values()):
        option = next(option for option, is_set in toy_only.items() if is_set)
        raise UserError(f"--{option} is only for {', '.join(TASKS)}; leave it out for {name}")
    low = min_len if test_min_len is None else test_min_len
    high = max_len if test_max_len is None else test_max_len
    options = DatasetOptions(size, seed, direction, (min_len, max_len), (low, high))
    for path in write_dataset(name, out, options):
        print_line(f"{path}/" if path.name == IMAGE_FOLDER else str(path))


@data_app.command(cls=HeldOutPairsCommand)
def inspect(
    files: PairFilesArgument,
    valid: Annotated[
        list[Path] | None, typer.Option(metavar="SRC TGT", help="Validation files: do their sources occur in FILES?")
    ] = None,
    test: Annotated[
        list[Path] | None, typer.Option(metavar="SRC TGT", help="Test files: do their sources occur in FILES?")
    ] = None,
    languages: LanguagesOption = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="OUT.png", help="Draw the lengths of the pairs into this .png or .svg.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say what is in a parallel corpus, and what is wrong with it."""
    from regard.data.inspection import inspect_corpus
    from regard.data.inspection_text import describe_inspection
    from regard.data.parallel_corpus import Corpus
    from regard.visualize.corpus_picture import check_picture, draw_corpus

    if picture:
        check_picture(picture)
    langs = parse_languages(languages)
    corpora = {"": files, "validation data": valid, "test data": test}
    sources = {name: Corpus(tuple(paths), langs) for name, paths in corpora.items() if paths}
    with ExitStack() as stack, ProgressLine() as progress:
        read = {name: stack.enter_context(closing(corpus.read(progress))) for name, corpus in sources.items()}
        corpus = read.pop("")
        corpus.check_not_empty()
        inspection = inspect_corpus(corpus, read, progress)
        if picture:
            draw_corpus(corpus, picture)
    if as_json:
        print_line(json.dumps(asdict(inspection), ensure_ascii=False, indent=2))
        return
    words = ["regard", "data", "clean", *map(str, files), *(["--languages", languages] if languages else [])]
    print_line(describe_inspection(inspection, f"{shlex.join(words)} --out FOLDER"))
    if picture:
        print_line(f"\n{picture}")


@data_app.command()
def clean(
    files: PairFilesArgument,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="The folder to write: new or empty.")],
    rule: Annotated[
        list[str] | None,
        typer.Option(help="Apply only this rule: duplicate, identical, ratio, script or language; repeatable."),
    ] = None,
    skip: Annotated[list[str] | None, typer.Option(help="Apply all rules but this one; repeatable.")] = None,
    languages: LanguagesOption = None,
) -> None:
    """Write a parallel corpus without the pairs that harm training.

    FOLDER gets two line-aligned files with the clean pairs, and removed.tsv with the line, the reason and both sides
    of what was removed.
    """
    from regard.data.cleaning import clean_corpus
    from regard.data.language import INSTALL, can_identify
    from regard.data.pair_rules import RULES
    from regard.data.parallel_corpus import Corpus

    _check_rules(rule or (), "--rule", RULES)
    _check_rules(skip or (), "--skip", RULES)
    chosen = [RULES[name] for name in RULES if (not rule or name in rule) and name not in (skip or ())]
    if RULES["language"] in chosen and not can_identify():
        if rule:
            raise UserError(f"--rule language: {INSTALL}")
        print_warning(f"languages are not checked: that {INSTALL}")
    with ProgressLine() as progress:
        result = clean_corpus(Corpus(tuple(files), parse_languages(languages)), chosen, out, progress)
    print_line(f"{result.kept:,} of {result.lines:,} pairs are clean: {result.files[0]}, {result.files[1]}")
    for problem, count in result.removed.items():
        print_line(f"removed {count:,} × {problem}")
    print_line(f"what was removed: {result.removed_file}")


@data_app.command()
def prepare(
    files: CorpusNamesArgument,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="The folder to write; the same one to go on.")],
    recipe: Annotated[str, typer.Option(help="The recipe that will be trained: its tokenizer and filters.")] = "auto",
    config: ConfigOption = None,
    set_: SetOption = None,
    languages: LanguagesOption = None,
    tokenizer: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Use the tokenizer of this model instead of a new one.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes.  [default: one per core]")] = None,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Use a Ray cluster: HOST:PORT, auto or local; FOLDER must be on a shared disk."
        ),
    ] = None,
) -> None:
    """Read, filter and tokenise a large corpus for `regard train FOLDER`, in shards on all cores.

    Memory does not grow with the corpus. If it is interrupted, the same command continues where it was.
    """
    from regard.data.pair_readers import find_languages
    from regard.data.prepared.inputs import find_corpora
    from regard.data.prepared.task_pool import open_pool
    from regard.train.auto_recipe import AutoRecipe
    from regard.train.prepare_data import PreparationOptions, prepare_data
    from regard.train.recipe import AUTO, load_recipe

    if ray is not None and workers is not None:
        raise UserError("--workers is for this machine; leave it out with --ray")
    settings, langs = set_ or (), parse_languages(languages)
    auto = AutoRecipe(config, settings) if recipe == AUTO else None
    chosen = auto.load() if auto else load_recipe(recipe, config, settings)
    corpora = find_corpora(files, langs)
    options = PreparationOptions(chosen, langs or find_languages(corpora[0].paths), auto, tokenizer)
    make_out_folder(out)
    try:
        with open_pool(workers, ray) as pool, ProgressLine(log=True) as progress:
            corpus = prepare_data(corpora, out, options, pool, progress)
    except KeyboardInterrupt:
        print_warning("interrupted; the same command continues")
        raise
    _print_result(corpus, "" if auto else f" --recipe {recipe}")


def _print_result(corpus: "PreparedCorpus", options: str) -> None:
    for line in corpus.report.describe(corpus.parts[0].name):
        print_line(line)
    pair, n_shards = corpus.tokenizers, len(corpus.pairs.shards)
    sizes = f"{pair.tgt.size:,} pieces, joint" if pair.joint else f"{pair.src.size:,} and {pair.tgt.size:,} pieces"
    print_line(f"tokenizer: {sizes}")
    print_line(f"prepared:  {corpus.folder} ({n_shards:,} shard{'s' if n_shards > 1 else ''})")
    print_line(f"train it:  regard train {shlex.quote(str(corpus.folder))}{options} --out RUN")


def _check_rules(names: Sequence[str], option: str, known: Sequence[str] | dict[str, Any]) -> None:
    for name in names:
        if name not in known:
            raise UserError(f"{option} {name}: unknown; choose one of {', '.join(known)}")
